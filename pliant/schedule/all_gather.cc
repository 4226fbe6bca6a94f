// SPDX-License-Identifier: MIT
#include "pliant/schedule/all_gather.h"

#include <algorithm>

namespace pliant::schedule {

// The ring: in each round a rank passes to its right the block it received last, beginning with its
// own.
Schedule ring_all_gather(int rank, int size) {
  check_rank(rank, size);
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  Schedule rounds;
  for (int r = 0; r + 1 < size; ++r) {
    const int outgoing = (rank + size - r) % size;
    const int incoming = (left + size - r) % size;
    rounds.push_back({.sends = {{right, {outgoing}}}, .receives = {{left, {incoming}}}});
  }
  return rounds;
}

// Recursive doubling: with 2^i blocks in hand, aligned, partners that differ in bit i swap all they
// have.
Schedule doubling_all_gather(int rank, int size) {
  check_rank(rank, size);
  if (!is_power_of_two(size)) return bruck_all_gather(rank, size);
  Schedule rounds;
  for (int have = 1; have < size; have *= 2) {
    const int partner = rank ^ have;
    const int mine = rank & ~(have - 1);
    const int theirs = partner & ~(have - 1);
    rounds.push_back({.sends = {{partner, block_range(mine, have, size)}},
                      .receives = {{partner, block_range(theirs, have, size)}}});
  }
  return rounds;
}

// Bruck: a rank holds `have` blocks, its own and those after it (wrapped). It fetches the next ones
// from the rank that starts where it ends, and serves the rank that ends where it starts. Each
// round doubles what it holds; the last one fetches only what is still missing, so no byte travels
// twice.
Schedule bruck_all_gather(int rank, int size) {
  check_rank(rank, size);
  Schedule rounds;
  for (int have = 1; have < size; have *= 2) {
    const int count = std::min(have, size - have);
    const int from = (rank + have) % size;
    const int to = (rank + size - have) % size;
    rounds.push_back({.sends = {{to, block_range(rank, count, size)}},
                      .receives = {{from, block_range(from, count, size)}}});
  }
  return rounds;
}

}  // namespace pliant::schedule
