// SPDX-License-Identifier: MIT
#include "pliant/agree/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

namespace pliant::agree {
namespace {

// The ranks that differ from most others; from rank 0 if there is no majority.
std::vector<std::size_t> odd_ones(std::span<const std::uint64_t> values) {
  std::map<std::uint64_t, std::size_t> votes;
  for (const auto value : values) ++votes[value];
  if (votes.size() == 1) return {};
  std::uint64_t usual = values.front();
  for (const auto& [value, count] : votes) {
    if (count > votes[usual]) usual = value;
  }
  std::vector<std::size_t> odd;
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (values[r] != usual) odd.push_back(r);
  }
  return odd;
}

// Sentence about a value in which some of these ranks differ from the others.
std::optional<std::string> difference(std::span<const Record> records,
                                      std::span<const std::size_t> ranks, std::string_view what,
                                      std::uint64_t (*of)(const Record&)) {
  std::vector<std::uint64_t> values;
  for (const std::size_t rank : ranks) values.push_back(of(records[rank]));
  const auto odd = odd_ones(values);
  if (odd.empty()) return std::nullopt;
  const bool tie = 2 * odd.size() >= ranks.size();
  std::size_t other = 0;  // the first that is not odd
  while (other < odd.size() && odd[other] == other) ++other;
  std::vector<std::size_t> named;
  named.reserve(odd.size());
  for (const std::size_t place : odd) named.push_back(ranks[place]);
  return fmt::format(
      "rank {} differs from {} in its {} ({:x}, not {:x}) at step {}{}", fmt::join(named, ", "),
      tie ? fmt::format("rank {}", ranks[other]) : "the others", what, values[odd.front()],
      values[other], records.front().step, tie ? "; it is not known which rank is right" : "");
}

}  // namespace

double on_the_wire(std::span<const Record> records) {
  double sum = 0;
  for (std::size_t i = 0; i < kRecordTimes; ++i) {
    std::map<std::uint16_t, float> least;  // by part
    for (const Record& record : records) {
      const auto [of_part, is_first] = least.try_emplace(record.part, record.wire.at(i));
      if (!is_first) of_part->second = std::min(of_part->second, record.wire.at(i));
    }
    sum +=
        std::ranges::max_element(least, {}, &std::pair<const std::uint16_t, float>::second)->second;
  }
  return sum;
}

std::optional<std::string> nonsense(std::span<const Record> records) {
  constexpr float kLongest = 3600;
  const auto makes_sense = [](float seconds) { return seconds >= 0 && seconds <= kLongest; };
  for (std::size_t r = 0; r < records.size(); ++r) {
    const Record& record = records[r];
    const std::array<std::pair<std::string_view, float>, 5> named = {
        {{"step", record.whole},
         {"wait", record.exposed},
         {"bucket's lead", record.lead},
         {"coding", record.coding},
         {"record", record.control}}};
    for (const auto& [what, seconds] : named) {
      if (!makes_sense(seconds))
        return fmt::format("rank {} says that its {} took {:g} s", r, what, seconds);
    }
    for (const float seconds : record.wire) {
      if (!makes_sense(seconds))
        return fmt::format("rank {} says that an exchange took {:g} s", r, seconds);
    }
  }
  return std::nullopt;
}

std::optional<std::string> disagreement(std::span<const Record> records) {
  struct Fact {
    std::string_view what;
    std::uint64_t (*of)(const Record&);
    bool is_of_part = false;  // ranks that hold other parts may differ
  };
  static constexpr std::array facts = {
      Fact{"record format", [](const Record& r) { return std::uint64_t{r.version}; }},
      Fact{"step", [](const Record& r) { return r.step; }},
      Fact{"plan version", [](const Record& r) { return std::uint64_t{r.epoch}; }},
      Fact{"plan", [](const Record& r) { return std::uint64_t{r.plan}; }},
      Fact{"hash of what was applied",
           [](const Record& r) {
             return std::uint64_t{(r.flags & kAppliedHashed) != 0 ? r.applied : 0};
           },
           true},
  };
  std::map<std::uint16_t, std::vector<std::size_t>> by_part;
  for (std::size_t r = 0; r < records.size(); ++r) by_part[records[r].part].push_back(r);
  std::vector<std::size_t> everybody(records.size());
  std::iota(everybody.begin(), everybody.end(), std::size_t{0});
  for (const Fact& fact : facts) {
    if (!fact.is_of_part) {
      if (auto why = difference(records, everybody, fact.what, fact.of)) return why;
      continue;
    }
    for (const auto& [part, ranks] : by_part) {
      if (auto why = difference(records, ranks, fact.what, fact.of)) return why;
    }
  }
  return std::nullopt;
}

}  // namespace pliant::agree
