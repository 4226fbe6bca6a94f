// SPDX-License-Identifier: MIT
#include "pliant/schedule/reduce_scatter.h"

#include "pliant/schedule/all_gather.h"

namespace pliant::schedule {

// The ring: blocks travel clockwise. In round r a rank passes on the block it has just added to,
// the one that started r hops upstream, and receives the next one from its left. After N-1 rounds
// block b has visited everyone and rests, complete, at rank b.
Schedule ring_reduce_scatter(int rank, int size) {
  check_rank(rank, size);
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  Schedule rounds;
  for (int r = 0; r + 1 < size; ++r) {
    const int outgoing = (rank + 2 * size - 1 - r) % size;
    const int incoming = (rank + 2 * size - 2 - r) % size;
    rounds.push_back({.sends = {{right, {outgoing}}},
                      .receives = {{left, {incoming}}},
                      .on_arrival = OnArrival::kCombine});
  }
  return rounds;
}

Schedule halving_reduce_scatter(int rank, int size) {
  return backwards(doubling_all_gather(rank, size));
}

Schedule circulant_reduce_scatter(int rank, int size) {
  return backwards(bruck_all_gather(rank, size));
}

// Everyone sends every block straight to its owner. Peers are taken in the order rank+1, rank+2,
// ... so that in each instant every port is used once, and an owner adds what it receives in the
// order rank-1, rank-2, ...
Schedule direct_reduce_scatter(int rank, int size) {
  check_rank(rank, size);
  if (size == 1) return {};
  Round round{.on_arrival = OnArrival::kCombine};
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size;
    round.sends.push_back({to, {to}});
    round.receives.push_back({(rank + size - distance) % size, {rank}});
  }
  return {round};
}

}  // namespace pliant::schedule
