// SPDX-License-Identifier: MIT
// Broadcast: the root starts with all blocks, every rank ends with them.
#pragma once

#include "pliant/schedule/schedule.h"

namespace pliant::schedule {

// One block, ceil(log2 N) rounds: each rank that has it sends it to a rank that does not.
[[nodiscard]] Schedule binomial_broadcast(int rank, int size, int root);

// `segments` blocks down a chain, N - 2 + segments rounds: close to the bandwidth bound for many
// segments and few ranks.
[[nodiscard]] Schedule chain_broadcast(int rank, int size, int root, int segments);

// `segments` blocks down two binary trees at once, about segments + 2 log2 N rounds, one block each
// way per round.
[[nodiscard]] Schedule double_tree_broadcast(int rank, int size, int root, int segments);

// N blocks: a binomial scatter of 1/N to each rank, then an all-gather. 2 ceil(log2 N) rounds.
[[nodiscard]] Schedule scatter_all_gather_broadcast(int rank, int size, int root);

}  // namespace pliant::schedule
