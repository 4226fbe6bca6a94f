// SPDX-License-Identifier: MIT
#include "pliant/comm/culprit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

namespace pliant::comm {
namespace {

constexpr std::size_t kShownWaits = 8;  // of a trail: more would hide the rest of the text

std::string told(const Wait& wait) {
  return wait.peer < 0 ? fmt::format("rank {} waits for all ranks", wait.rank)
                       : fmt::format("rank {} waits for rank {}", wait.rank, wait.peer);
}

void advise(Failure& failure, std::string_view first) {
  failure.advice =
      failure.advice.empty() ? std::string(first) : fmt::format("{}\n  {}", first, failure.advice);
}

}  // namespace

std::string to_string(const Wait& wait) {
  return fmt::format("rank {} waits for rank {}, round {} of {}, plan version {}", wait.rank,
                     wait.peer, wait.place.round, wait.place.rounds, wait.place.plan_version);
}

std::optional<Wait> parse_wait(const std::string& text) {
  Wait wait;
  unsigned long long version = 0;
  const int read =
      std::sscanf(text.c_str(), "rank %d waits for rank %d, round %d of %d, plan version %llu",
                  &wait.rank, &wait.peer, &wait.place.round, &wait.place.rounds, &version);
  if (read != 5) return std::nullopt;
  wait.place.plan_version = version;
  return wait;
}

Findings follow(std::span<const Wait> waits, int asker, int size) {
  Findings found;
  std::vector<bool> seen(static_cast<std::size_t>(size));
  std::vector<int> next;
  const auto visit = [&](int rank) {
    if (rank < 0 || rank >= size || seen[static_cast<std::size_t>(rank)]) return;
    seen[static_cast<std::size_t>(rank)] = true;
    next.push_back(rank);
  };
  visit(asker);
  for (std::size_t i = 0; i < next.size(); ++i) {
    const int rank = next[i];
    const auto word = std::ranges::find(waits, rank, &Wait::rank);
    if (word == waits.end()) {
      if (rank != asker) found.silent.push_back(rank);
      continue;
    }
    found.trail.push_back(*word);
    if (word->peer >= 0) {
      visit(word->peer);
    } else {
      for (int other = 0; other < size; ++other) visit(other);
    }
  }
  std::ranges::sort(found.silent);
  return found;
}

Failure with_findings(Failure failure, const Findings& findings) {
  std::vector<std::string> trail;
  for (const Wait& wait : findings.trail)
    trail.push_back(trail.size() < kShownWaits ? told(wait) : "...");
  if (trail.size() > kShownWaits) trail.resize(kShownWaits + 1);
  std::string text = fmt::format("Asked: {}.", fmt::join(trail, ", "));
  if (findings.silent.size() == 1) failure.culprit = findings.silent.front();
  if (findings.silent.size() > 1)
    text += fmt::format(" Ranks {} reported nothing: check them first.",
                        fmt::join(findings.silent, ", "));
  if (findings.silent.empty())
    text += " They wait for each other: do the ranks run the same plan and the same steps?";
  advise(failure, text);
  return failure;
}

Failure without_findings(Failure failure, const std::string& why) {
  advise(
      failure,
      fmt::format(
          "The other ranks could not be asked whom they wait for ({}): compare their texts.", why));
  return failure;
}

}  // namespace pliant::comm
