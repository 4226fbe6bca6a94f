// SPDX-License-Identifier: MIT
// How people write a link.
#include <algorithm>
#include <array>
#include <cctype>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "tools/pliant-lab/net/link.h"
#include "tools/pliant-lab/net/trace_file.h"

namespace pliant::lab {
namespace {

const std::array<std::string, 9> kKeys = {"rate",  "delay", "jitter",    "loss", "reorder",
                                          "queue", "trace", "blackhole", "state"};

// Below 1 kbit/s a full packet takes 12 s: a mistyped unit, or a link that should be down.
constexpr BytesPerSecond kSlowest = from_bits_per_second(1000);

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Rate parse_rate_value(std::string_view value, std::string_view what) {
  if (value == "unlimited") return {};
  const BytesPerSecond rate = parse_rate(value, what);
  if (rate < kSlowest)
    throw InputError(fmt::format("{}: '{}' is below 1 kbit/s; a link that passes nothing is 'down'",
                                 what, value));
  return {.limit = rate, .trace = nullptr};
}

double parse_share(std::string_view value, std::string_view what) {
  const double share = parse_fraction(value, what);
  if (share > 1) throw InputError(fmt::format("{}: '{}' is more than 100 %", what, value));
  return share;
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return text.ends_with(end); });
}

// "100p" or "100 packets", a size, or a time at the link's rate.
QueueLimit parse_queue(std::string_view value, std::string_view what) {
  if (value == "default") return {};
  if (ends_with_any(value, {"p", "packets"})) {
    const std::string number(trim(value.substr(0, value.find('p'))));
    const bool whole = !number.empty() && number.size() < 10 &&
                       std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    if (!whole || std::stoi(number) == 0)
      throw InputError(
          fmt::format("{}: '{}' is not a number of packets; write it as 100p", what, value));
    return {QueueLimit::Unit::kPackets, std::stod(number)};
  }
  if (ends_with_any(value, {"B", "b"}))
    return {QueueLimit::Unit::kBytes, static_cast<double>(parse_size(value, what).value)};
  if (ends_with_any(value, {"s", "min"}))
    return {QueueLimit::Unit::kTime, parse_duration(value, what).value};
  throw InputError(
      fmt::format("{}: '{}' has no unit; write it as 100p (packets), 64KiB or 50ms", what, value));
}

void parse_direction_key(DirectionChange& change, std::string_view key, std::string_view value,
                         std::string_view what) {
  if (key == "rate") change.rate = parse_rate_value(value, what);
  if (key == "delay") change.delay = parse_duration(value, what);
  if (key == "jitter") change.jitter = parse_duration(value, what);
  if (key == "loss") change.loss = parse_share(value, what);
  if (key == "reorder") change.reorder = parse_share(value, what);
  if (key == "queue") change.queue = parse_queue(value, what);
  if (key == "trace") change.rate = Rate{.limit = {}, .trace = read_trace(std::string(value))};
}

void parse_blackhole(LinkChange& change, std::string_view value, std::string_view what) {
  const std::array<std::string, 4> words = {"in", "out", "both", "none"};
  if (std::ranges::find(words, value) == words.end())
    throw InputError(
        fmt::format("{}: '{}' is not a side{}", what, value, suggestion(value, words)));
  change.out.blackhole = value == "out" || value == "both";
  change.in.blackhole = value == "in" || value == "both";
}

void parse_state(LinkChange& change, std::string_view value, std::string_view what) {
  const std::array<std::string, 2> words = {"up", "down"};
  if (std::ranges::find(words, value) == words.end())
    throw InputError(
        fmt::format("{}: '{}' is not a state{}", what, value, suggestion(value, words)));
  change.down = value == "down";
}

// A part without "=": a rate or a delay by its unit, or a word.
void parse_bare(LinkChange& change, std::string_view part, std::string_view what) {
  std::string lower(part);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "up" || lower == "down") return parse_state(change, lower, what);
  if (lower == "unlimited" || ends_with_any(lower, {"bit", "bit/s"}))
    return parse_key(change, "rate", lower, what);
  if (lower.ends_with('%'))
    throw InputError(
        fmt::format("{}: '{}' could be loss or reordering; write loss={} or reorder={}", what, part,
                    part, part));
  const bool number = !lower.empty() && lower.find_first_not_of("0123456789.") == std::string::npos;
  if (number)
    throw InputError(fmt::format("{}: '{}' has no unit; write a rate as {}mbit, a delay as {}ms",
                                 what, part, part, part));
  if (lower.ends_with('s') || lower.ends_with("min") || lower.ends_with('h')) {
    if (lower.find_first_of("0123456789") == 0 && !lower.ends_with("bps"))
      return parse_key(change, "delay", part, what);
  }
  if (!lower.empty() && std::isdigit(static_cast<unsigned char>(lower.front())) != 0)
    return parse_key(change, "rate", part, what);
  throw InputError(
      fmt::format("{}: '{}' is neither a rate (100mbit), a delay (10ms) nor key=value{}", what,
                  part, suggestion(part, kKeys)));
}

}  // namespace

std::span<const std::string> link_keys() { return kKeys; }

void parse_key(LinkChange& change, std::string_view key, std::string_view value,
               std::string_view what) {
  const bool in = key.starts_with("in.");
  const bool out = key.starts_with("out.");
  const std::string_view name = in ? key.substr(3) : out ? key.substr(4) : key;
  const bool one_sided = in || out;
  if (std::ranges::find(kKeys, name) == kKeys.end())
    throw InputError(fmt::format("{}: unknown key '{}'{}", what, key, suggestion(name, kKeys)));
  if (one_sided && (name == "blackhole" || name == "state")) {
    throw InputError(fmt::format(
        "{}: '{}' takes no side in front; write blackhole=in or blackhole=out", what, key));
  }
  const std::string context = fmt::format("{}: {}", what, key);
  if (name == "blackhole") return parse_blackhole(change, value, context);
  if (name == "state") return parse_state(change, value, context);
  if (!in) parse_direction_key(change.out, name, value, context);
  if (!out) parse_direction_key(change.in, name, value, context);
}

LinkChange parse_link(std::string_view text, std::string_view what) {
  LinkChange change;
  const std::string context = fmt::format("{} '{}'", what, text);
  for (const std::string_view part : split(text, ',')) {
    if (part.empty())
      throw InputError(context + ": an empty part; write it as 100mbit,10ms,loss=0.5%");
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) {
      parse_bare(change, part, context);
    } else {
      parse_key(change, trim(part.substr(0, equals)), trim(part.substr(equals + 1)), context);
    }
  }
  return change;
}

}  // namespace pliant::lab
