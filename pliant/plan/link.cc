// SPDX-License-Identifier: MIT
#include "pliant/plan/link.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "pliant/common/errors.h"

namespace pliant::plan {
namespace {

std::string spread(double uncertainty, double value) { return uncertainty > 0 && value > 0 ? " +-" + percent(uncertainty / value) : ""; }

std::string rate_text(double bits) {
  if (std::isinf(bits)) return "inf";
  if (bits >= 1e9) return fmt::format("{:.6g}gbit", bits * 1e-9);
  if (bits >= 1e6) return fmt::format("{:.6g}mbit", bits * 1e-6);
  if (bits >= 1e3) return fmt::format("{:.6g}kbit", bits * 1e-3);
  return fmt::format("{:.6g}bit", bits);
}

std::string duration_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.6g}s", seconds);
  if (seconds >= 1e-3 || seconds == 0) return fmt::format("{:.6g}ms", seconds * 1e3);
  if (seconds >= 1e-6) return fmt::format("{:.6g}us", seconds * 1e6);
  return fmt::format("{:.6g}ns", seconds * 1e9);
}

}  // namespace

Link link_of(BytesPerSecond bandwidth, Seconds latency) {
  require(bandwidth.value > 0 && latency.value >= 0, "a link of {} bytes/s and {} s", bandwidth.value, latency.value);
  return {.latency = latency, .seconds_per_byte = 1 / bandwidth.value};
}

BytesPerSecond bandwidth(const Link& link) {
  return {link.seconds_per_byte > 0 ? 1 / link.seconds_per_byte : std::numeric_limits<double>::infinity()};
}

bool all_equal(const Links& links) { return std::ranges::adjacent_find(links, std::not_equal_to{}) == links.end(); }

World uniform_world(int size, const Link& link) {
  require(size >= 1, "a world of {} ranks", size);
  return {.size = size, .links = Links(static_cast<std::size_t>(size), link)};
}

Link parse_link(std::string_view text, std::string_view what) {
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos || text.find(',', comma + 1) != std::string_view::npos) {
    throw InputError(fmt::format("{}: '{}' is not bandwidth,latency; write it as 100mbit,10ms", what, text));
  }
  const Seconds latency = parse_duration(text.substr(comma + 1), what);
  if (text.substr(0, comma) == "inf") return {.latency = latency};
  const BytesPerSecond rate = parse_rate(text.substr(0, comma), what);
  if (rate.value <= 0) throw InputError(fmt::format("{}: '{}' has no bandwidth; nothing would ever arrive", what, text));
  return link_of(rate, latency);
}

std::string to_string(const Link& link) { return rate_text(bits_per_second(bandwidth(link))) + "," + duration_text(link.latency.value); }

std::string describe(const Link& link) {
  return pliant::to_string(bandwidth(link)) + spread(link.seconds_per_byte_uncertainty, link.seconds_per_byte) + ", " +
         pliant::to_string(link.latency) + spread(link.latency_uncertainty.value, link.latency.value);
}

}  // namespace pliant::plan
