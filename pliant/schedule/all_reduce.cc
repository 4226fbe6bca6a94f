// SPDX-License-Identifier: MIT
#include "pliant/schedule/all_reduce.h"

#include "pliant/schedule/all_gather.h"
#include "pliant/schedule/broadcast.h"
#include "pliant/schedule/reduce_scatter.h"

namespace pliant::schedule {

Schedule ring_all_reduce(int rank, int size) {
  return concatenate(ring_reduce_scatter(rank, size), ring_all_gather(rank, size));
}

Schedule halving_doubling_all_reduce(int rank, int size) {
  return concatenate(halving_reduce_scatter(rank, size), doubling_all_gather(rank, size));
}

// Recursive doubling among the largest power of two, `core`. Rank core + i is looked after by rank
// i.
Schedule doubling_all_reduce(int rank, int size) {
  check_rank(rank, size);
  const int core = is_power_of_two(size) ? size : (1 << ceil_log2(size)) / 2;
  const bool outside = rank >= core;
  const bool looks_after = rank + core < size;
  Schedule rounds;
  if (core < size) {
    Round fold{.on_arrival = OnArrival::kCombine};
    if (outside) fold.sends = {{rank - core, {0}}};
    if (looks_after) fold.receives = {{rank + core, {0}}};
    rounds.push_back(fold);
  }
  for (int bit = 1; bit < core; bit *= 2) {
    Round swap{.on_arrival = OnArrival::kCombine};
    if (!outside) {
      swap.sends = {{rank ^ bit, {0}}};
      swap.receives = {{rank ^ bit, {0}}};
    }
    rounds.push_back(swap);
  }
  if (core < size) {
    Round unfold;
    if (looks_after) unfold.sends = {{rank + core, {0}}};
    if (outside) unfold.receives = {{rank - core, {0}}};
    rounds.push_back(unfold);
  }
  return rounds;
}

Schedule tree_all_reduce(int rank, int size) {
  const Schedule down = binomial_broadcast(rank, size, 0);
  return concatenate(backwards(down), down);
}

}  // namespace pliant::schedule
