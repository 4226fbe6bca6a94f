// SPDX-License-Identifier: MIT
// MSTopk, the selection that published systems use: a threshold found by 25 rounds of bisection
// between the mean and the largest magnitude, each a pass over memory. A baseline for benchmarks.
// (Layer-wise top-k, the other one, is compress::Selector with each layer as a bucket.)
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "pliant/compress/selection.h"
#include "pliant/kernels/magnitude.h"

namespace pliant::bench {

// Moves `keep` entries, nearly the largest, from `residual` to `out`. Bisection remembers the
// lowest threshold that at most `keep` entries reach and the highest one that more do. All entries
// of the former are kept, and of those in between as many as are missing, here from the lowest
// index on (the authors start at a random one).
inline void mstopk(std::span<float> residual, std::size_t keep, compress::Selection& out) {
  constexpr int kBisections = 25;
  using kernels::magnitude;
  out.clear();
  if (keep == 0) return;
  double sum = 0;
  float largest = 0;
  for (const float x : residual) {
    sum += magnitude(x);
    largest = std::max(largest, magnitude(x));
  }
  const double mean = sum / static_cast<double>(residual.size());
  float sure = std::numeric_limits<float>::infinity(), possible = 0;
  std::size_t surely_kept = 0;
  double low = 0, high = 1;
  for (int bisection = 0; bisection < kBisections; ++bisection) {
    const double ratio = (low + high) / 2;
    const auto threshold = static_cast<float>(mean + ratio * (largest - mean));
    std::size_t count = 0;
    for (const float x : residual) count += magnitude(x) >= threshold ? 1 : 0;
    if (count <= keep) {
      high = ratio;
      if (count > surely_kept) std::tie(surely_kept, sure) = std::pair(count, threshold);
    } else {
      low = ratio;
      possible = threshold;
    }
  }
  const kernels::Room room = out.room(keep);
  std::size_t missing = keep - surely_kept;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < residual.size() && kept < keep; ++i) {
    const bool is_sure = magnitude(residual[i]) >= sure;
    if (!is_sure && (missing == 0 || magnitude(residual[i]) < possible)) continue;
    if (!is_sure) --missing;
    room.indices[kept] = static_cast<std::uint32_t>(i);
    room.values[kept++] = std::exchange(residual[i], 0.0F);
  }
  out.resize(kept);
}

}  // namespace pliant::bench
