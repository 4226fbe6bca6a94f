// SPDX-License-Identifier: MIT
// Reduce-scatter: rank b ends with the sum over all ranks of block b. N blocks; every rank sends
// N-1 of them in all.
#pragma once

#include "pliant/schedule/schedule.h"

namespace pliant::schedule {

// N-1 rounds, one block each way per round.
[[nodiscard]] Schedule ring_reduce_scatter(int rank, int size);

// log2 N rounds between ranks that differ in one bit. Other sizes have no such partner and take the
// circulant's way.
[[nodiscard]] Schedule halving_reduce_scatter(int rank, int size);

// ceil(log2 N) rounds for any N.
[[nodiscard]] Schedule circulant_reduce_scatter(int rank, int size);

// One round, N-1 messages each way.
[[nodiscard]] Schedule direct_reduce_scatter(int rank, int size);

}  // namespace pliant::schedule
