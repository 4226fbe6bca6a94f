// SPDX-License-Identifier: MIT
// Problem of a benchmark: a collective over one vector, with its input, its expected result, and
// the least time that any algorithm needs. The data are small whole numbers, so that sums are exact
// in float32 in whatever order they are added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pliant/plan/link.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::bench {

struct Problem {
  schedule::Collective collective;
  int ranks;
  int root;
  std::size_t
      count;  // of the whole vector: what all-gather ends with and reduce-scatter starts from
};

// The problem of about this many bytes. As in nccl-tests, collectives with a part for each rank
// round down to equal parts.
[[nodiscard]] Problem make_problem(schedule::Collective collective, int ranks, int root,
                                   std::size_t bytes);

// Writes the input of `rank`. Elements that it must not use are filled with a number that cannot
// pass for a result.
void fill(const Problem& problem, int rank, std::span<float> data);

// Number of wrong elements in the result of `rank`.
[[nodiscard]] std::int64_t count_wrong(const Problem& problem, int rank,
                                       std::span<const float> data);

// The part of the vector that is this rank's own, in all-gather and reduce-scatter.
[[nodiscard]] std::span<float> own_part(const Problem& problem, int rank, std::span<float> data);

// Bytes that every port must pass one way at least, over the vector's bytes: busbw = algbw x this.
[[nodiscard]] double bus_factor(const Problem& problem);

// No algorithm is faster over these links: the bytes each port must pass, at its rate.
[[nodiscard]] Seconds bandwidth_bound(const Problem& problem, const plan::Link& link);

}  // namespace pliant::bench
