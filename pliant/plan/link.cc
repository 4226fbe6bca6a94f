// SPDX-License-Identifier: MIT
#include "pliant/plan/link.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <span>

#include "pliant/common/errors.h"

namespace pliant::plan {
namespace {

std::string spread(double uncertainty, double value) {
  return uncertainty > 0 && value > 0 ? " +-" + percent(uncertainty / value) : "";
}

struct Unit {
  double size;
  std::string_view name;
};
constexpr std::array kRates = {Unit{1e9, "gbit"}, Unit{1e6, "mbit"}, Unit{1e3, "kbit"},
                               Unit{1, "bit"}};
constexpr std::array kDurations = {Unit{1, "s"}, Unit{1e-3, "ms"}, Unit{1e-6, "us"},
                                   Unit{1e-9, "ns"}};

// In the largest unit that leaves at least 1 after rounding to six digits: 1 / (1 / 1e9) is a hair
// below 1e9 and still "1gbit".
std::string six_digits(double value, std::span<const Unit> units) {
  const double barely = value * (1 + 5e-7);
  const auto fits =
      std::ranges::find_if(units, [&](const Unit& unit) { return barely >= unit.size; });
  const Unit unit = fits == units.end() ? units.back() : *fits;
  return fmt::format("{:.6g}{}", value / unit.size, unit.name);
}

}  // namespace

Link link_of(BytesPerSecond bandwidth, Seconds latency) {
  require(bandwidth.value > 0 && latency.value >= 0, "a link of {} bytes/s and {} s",
          bandwidth.value, latency.value);
  return {.latency = latency, .seconds_per_byte = 1 / bandwidth.value};
}

BytesPerSecond bandwidth(const Link& link) {
  return {link.seconds_per_byte > 0 ? 1 / link.seconds_per_byte
                                    : std::numeric_limits<double>::infinity()};
}

bool all_equal(const Links& links) {
  return std::ranges::adjacent_find(links, std::not_equal_to{}) == links.end();
}

World uniform_world(int size, const Link& link) {
  require(size >= 1, "a world of {} ranks", size);
  return {.size = size, .links = Links(static_cast<std::size_t>(size), link)};
}

Link parse_link(std::string_view text, std::string_view what) {
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos || text.find(',', comma + 1) != std::string_view::npos) {
    throw InputError(
        fmt::format("{}: '{}' is not bandwidth,latency; write it as 100mbit,10ms", what, text));
  }
  const Seconds latency = parse_duration(text.substr(comma + 1), what);
  if (text.substr(0, comma) == "inf") return {.latency = latency};
  const BytesPerSecond rate = parse_rate(text.substr(0, comma), what);
  if (rate.value <= 0)
    throw InputError(
        fmt::format("{}: '{}' has no bandwidth; nothing would ever arrive", what, text));
  return link_of(rate, latency);
}

std::string to_string(const Link& link) {
  const std::string rate =
      link.seconds_per_byte > 0 ? six_digits(bits_per_second(bandwidth(link)), kRates) : "inf";
  const std::string latency =
      link.latency.value > 0 ? six_digits(link.latency.value, kDurations) : "0ms";
  return rate + "," + latency;
}

bool too_fast_to_tell(const Link& link) {
  return link.seconds_per_byte_uncertainty > 0 &&
         link.seconds_per_byte_uncertainty >= link.seconds_per_byte;
}

std::string describe(const Link& link) {
  const std::string rate =
      too_fast_to_tell(link) ? "too fast to tell"
                             : pliant::to_string(bandwidth(link)) +
                                   spread(link.seconds_per_byte_uncertainty, link.seconds_per_byte);
  return rate + ", " + pliant::to_string(link.latency) +
         spread(link.latency_uncertainty.value, link.latency.value);
}

}  // namespace pliant::plan
