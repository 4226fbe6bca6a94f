// SPDX-License-Identifier: MIT
// Plays a schedule with symbols instead of numbers: every copy of a block is an expression over the
// ranks' contributions, so that what arrived, what was added twice and in which order things were
// added can be read off at the end.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pliant/schedule/schedule.h"

namespace pliant::testing {

// Sums are told apart by their shape, but a + b and b + a are one: addition of floats commutes and
// does not associate.
class Expressions {
 public:
  int contribution(int rank) { return intern({-1, rank}, {rank}); }
  int sum(int a, int b) {
    std::set<int> all = ranks_[static_cast<std::size_t>(a)];
    for (int rank : ranks_[static_cast<std::size_t>(b)]) {
      if (!all.insert(rank).second)
        throw std::logic_error("rank " + std::to_string(rank) + " is added twice");
    }
    return intern(std::minmax(a, b), all);
  }
  [[nodiscard]] const std::set<int>& ranks(int id) const {
    return ranks_[static_cast<std::size_t>(id)];
  }

 private:
  int intern(std::pair<int, int> key, const std::set<int>& ranks) {
    const auto [it, fresh] = ids_.try_emplace(key, static_cast<int>(ranks_.size()));
    if (fresh) ranks_.push_back(ranks);
    return it->second;
  }
  std::map<std::pair<int, int>, int> ids_;
  std::vector<std::set<int>> ranks_;
};

inline constexpr int kNothing = -1;
using Holdings = std::vector<std::vector<int>>;  // [rank][block] -> expression, or kNothing

// Plays all rounds on `held` and returns it. Throws if a send has no matching receive (same round,
// same blocks), a rank sends what it does not hold, or something is added twice.
inline Holdings play(std::span<const schedule::Schedule> ranks, Holdings held,
                     Expressions& expressions) {
  const auto fail = [](std::size_t round, int rank, const std::string& why) {
    throw std::logic_error("round " + std::to_string(round) + ", rank " + std::to_string(rank) +
                           ": " + why);
  };
  const std::size_t rounds = ranks.front().size();
  for (const auto& schedule : ranks) {
    if (schedule.size() != rounds) throw std::logic_error("ranks differ in their number of rounds");
  }
  for (std::size_t r = 0; r < rounds; ++r) {
    const Holdings before = held;
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const schedule::Round& round = ranks[rank][r];
      sent += round.sends.size();
      received += round.receives.size();
      if (round.on_arrival != ranks.front()[r].on_arrival)
        fail(r, static_cast<int>(rank), "ranks differ in what they do with arrivals");
      std::set<int> peers;
      for (const auto& move : round.sends) {
        if (!peers.insert(move.peer).second)
          fail(r, static_cast<int>(rank), "two messages to one peer");
      }
      for (const auto& move : round.receives) {
        const auto& theirs = ranks[static_cast<std::size_t>(move.peer)][r].sends;
        const auto match =
            std::ranges::find(theirs, schedule::Move{static_cast<int>(rank), move.blocks});
        if (match == theirs.end())
          fail(r, static_cast<int>(rank), "nobody sends what it waits for");
        for (int block : move.blocks) {
          const int arriving =
              before[static_cast<std::size_t>(move.peer)][static_cast<std::size_t>(block)];
          if (arriving == kNothing)
            fail(r, move.peer, "sends block " + std::to_string(block) + ", which it does not hold");
          int& mine = held[rank][static_cast<std::size_t>(block)];
          mine = round.on_arrival == schedule::OnArrival::kCombine ? expressions.sum(mine, arriving)
                                                                   : arriving;
        }
      }
    }
    if (sent != received)
      throw std::logic_error("round " + std::to_string(r) + ": a send is not received");
  }
  return held;
}

}  // namespace pliant::testing
