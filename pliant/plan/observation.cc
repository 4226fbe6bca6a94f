// SPDX-License-Identifier: MIT
#include "pliant/plan/observation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"

namespace pliant::plan {
namespace {

template <typename Number>
Number parse_number(std::string_view text, int base = 10) {
  Number number{};
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<Number>) {
    read = std::from_chars(text.data(), text.data() + text.size(), number);
  } else {
    read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  }
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size())
    throw InputError(fmt::format("'{}' is not a number that fits", text));
  return number;
}

// One function per field would be sixteen alike; instead each field is named once, here, for
// printing and for parsing.
template <typename Value, typename Visit>
void visit_fields(Value& o, const Visit& visit) {
  visit("step", o.step);
  visit("epoch", o.epoch);
  visit("plan", o.plan_hash);
  visit("exchange", o.exchange);
  visit("select", o.select.value);
  visit("encode", o.encode.value);
  visit("decode", o.decode.value);
  visit("sent", o.sent.value);
  visit("entries", o.entries);
  visit("kept", o.kept);
  visit("trimmed", o.trimmed);
  visit("energy_accumulated", o.energy_accumulated);
  visit("energy_sent", o.energy_sent);
  visit("updated_fraction", o.updated_fraction);
  visit("non_finite", o.non_finite);
}

std::string to_string(const Timing& timing) {
  const Collective& c = timing.collective;
  std::vector<std::int64_t> blocks;
  for (const Bytes block : c.blocks) blocks.push_back(block.value);
  return fmt::format("{}.{}:{}:{}:{}:{}:{}:{}", to_string(c.scheme), to_string(c.stage), c.schedule,
                     c.ranks, c.root, fmt::join(blocks, ","), timing.entered.value,
                     timing.finished.value);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(at); end != std::string_view::npos; end = text.find(at)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

template <typename Values>
auto parse_word(std::string_view text, const Values& values) {
  const auto found =
      std::ranges::find_if(values, [&](auto value) { return to_string(value) == text; });
  if (found != values.end()) return *found;
  std::vector<std::string> known;
  known.reserve(values.size());
  for (const auto value : values) known.emplace_back(to_string(value));
  throw InputError(fmt::format("unknown word '{}'{}", text, suggestion(text, known)));
}

Timing parse_timing(std::string_view text) {
  const auto parts = split(text, ':');
  const auto names = split(parts.front(), '.');
  if (parts.size() != 7 || names.size() != 2)
    throw InputError("not scheme.stage:schedule:ranks:root:blocks:entered:finished");
  Timing timing{.collective = {.scheme = parse_word(names[0], kSchemes),
                               .stage = parse_word(names[1], kStages),
                               .schedule = std::string(parts[1]),
                               .ranks = parse_number<int>(parts[2]),
                               .root = parse_number<int>(parts[3]),
                               .blocks = {}},
                .entered = {parse_number<double>(parts[5])},
                .finished = {parse_number<double>(parts[6])}};
  if (parts[4].empty()) return timing;
  for (const std::string_view block : split(parts[4], ','))
    timing.collective.blocks.push_back({parse_number<std::int64_t>(block)});
  return timing;
}

void parse_field(Observation& observation, std::string_view key, std::string_view value) {
  bool found = false;
  visit_fields(observation, [&]<typename Field>(std::string_view name, Field& field) {
    if (name != key) return;
    found = true;
    if constexpr (std::is_same_v<Field, bool>) {
      field = parse_number<int>(value) != 0;
    } else if constexpr (std::is_floating_point_v<Field>) {
      field = parse_number<Field>(value);
    } else {
      field = parse_number<Field>(value, name == "plan" ? 16 : 10);
    }
  });
  if (!found) throw InputError(fmt::format("unknown key '{}='", key));
}

}  // namespace

double gain(const Observation& observation) {
  return observation.energy_accumulated > 0
             ? observation.energy_sent / observation.energy_accumulated
             : 1;
}

std::string to_string(const Observation& observation) {
  std::vector<std::string> words;
  visit_fields(observation, [&]<typename Field>(std::string_view name, const Field& field) {
    if constexpr (std::is_same_v<Field, bool>) {
      words.push_back(fmt::format("{}={:d}", name, field));
    } else if (name == "plan") {
      words.push_back(fmt::format("plan={:016x}", static_cast<std::uint64_t>(field)));
    } else {
      words.push_back(fmt::format("{}={}", name, field));
    }
  });
  for (const Timing& timing : observation.timings) words.push_back(to_string(timing));
  return fmt::format("{}", fmt::join(words, " "));
}

Observation parse_observation(std::string_view text, std::string_view what) {
  Observation observation;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    try {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) {
        observation.timings.push_back(parse_timing(word));
      } else {
        parse_field(observation, word.substr(0, equals), word.substr(equals + 1));
      }
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: '{}': {}", what, word, error.what()));
    }
  }
  return observation;
}

}  // namespace pliant::plan
