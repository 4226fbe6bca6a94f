// SPDX-License-Identifier: MIT
// All-gather: rank b starts with block b, every rank ends with all N blocks. Every rank sends N-1
// blocks in all.
#pragma once

#include "pliant/schedule/schedule.h"

namespace pliant::schedule {

// N-1 rounds, one block each way per round.
[[nodiscard]] Schedule ring_all_gather(int rank, int size);

// Recursive doubling: log2 N rounds between ranks that differ in one bit. Other sizes have no such
// partner and take Bruck's way: as many rounds, rounded up, and as many bytes.
[[nodiscard]] Schedule doubling_all_gather(int rank, int size);

// ceil(log2 N) rounds for any N, over the circulant graph with skips 1, 2, 4, ...
[[nodiscard]] Schedule bruck_all_gather(int rank, int size);

}  // namespace pliant::schedule
