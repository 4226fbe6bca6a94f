// SPDX-License-Identifier: MIT
// All-reduce: every rank ends with the sum over all ranks of every block. Each sum is formed in one
// place and copied, or by two partners who add the same two numbers, so all ranks hold the same
// bits.
#pragma once

#include "pliant/schedule/schedule.h"

namespace pliant::schedule {

// N blocks; ring reduce-scatter, then ring all-gather: 2(N-1) rounds, 2(N-1)/N of the bytes.
[[nodiscard]] Schedule ring_all_reduce(int rank, int size);

// N blocks; halving, then doubling: 2 ceil(log2 N) rounds for any N, 2(N-1)/N of the bytes.
[[nodiscard]] Schedule halving_doubling_all_reduce(int rank, int size);

// One block; partners swap all they have and both add: log2 N rounds, log2 N times the bytes. Where
// N is not a power of two the ranks beyond the largest one first hand their block to a partner and
// get the sum back at the end. Both partners add, so a lossy code would keep the same rounding
// error twice: exchange/ refuses that.
[[nodiscard]] Schedule doubling_all_reduce(int rank, int size);

// One block; a binomial tree to rank 0 and back: 2 ceil(log2 N) rounds.
[[nodiscard]] Schedule tree_all_reduce(int rank, int size);

}  // namespace pliant::schedule
