// SPDX-License-Identifier: MIT
// A collective as data: what one rank sends and receives, round by round, in units of blocks.
// Nothing here knows bytes, floats or networks; exchange/ runs it, model/ prices it, tests walk it,
// tools draw it.
#pragma once

#include <vector>

namespace pliant::schedule {

// One message: these blocks, in this order, to or from this peer. At most one message per pair and
// direction in a round.
struct Move {
  int peer;
  std::vector<int> blocks;
  bool operator==(const Move&) const = default;
};

enum class OnArrival { kCopy, kCombine };

// Sends finish before the next round starts. Arrivals are combined in the order of `receives`.
// on_arrival is the same on all ranks, so a sender knows what becomes of its blocks.
struct Round {
  std::vector<Move> sends;
  std::vector<Move> receives;
  OnArrival on_arrival = OnArrival::kCopy;
  bool operator==(const Round&) const = default;
};

using Schedule = std::vector<Round>;  // for one rank; all ranks have the same number of rounds

// first, then second: both over the same blocks.
[[nodiscard]] Schedule concatenate(Schedule first, const Schedule& second);

// Played backwards, with every copy turned into an addition: an all-gather becomes a
// reduce-scatter, a broadcast a reduction. The tree by which a block spread from its owner becomes
// the tree by which its parts flow back and are summed.
[[nodiscard]] Schedule backwards(Schedule spreading);

// The number of rounds a doubling needs to reach every rank: 0 for 1 rank, 3 for 5 to 8.
[[nodiscard]] int ceil_log2(int size);
[[nodiscard]] bool is_power_of_two(int size);

// [first, first + count), wrapped at size.
[[nodiscard]] std::vector<int> block_range(int first, int count, int size);

// Throws ContractError unless 0 <= rank < size (and 0 <= root < size, segments >= 1).
void check_rank(int rank, int size);
void check_broadcast(int rank, int size, int root, int segments);

}  // namespace pliant::schedule
