// SPDX-License-Identifier: MIT
#include "pliant/plan/fusion.h"

#include <numeric>

namespace pliant::plan {
namespace {

std::size_t nearest_to_half(std::span<const std::size_t> lengths) {
  const auto total = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  std::size_t best = 1;
  std::size_t least = total;
  std::size_t before = 0;
  for (std::size_t cut = 1; cut < lengths.size(); ++cut) {
    before += lengths[cut - 1];
    const std::size_t distance = 2 * before > total ? 2 * before - total : total - 2 * before;
    if (distance >= least) continue;
    best = cut;
    least = distance;
  }
  return best;
}

}  // namespace

std::vector<std::size_t> group_counts(Fusion fusion, std::span<const std::size_t> bucket_lengths) {
  const std::size_t count = bucket_lengths.size();
  if (count == 0) return {};
  if (fusion == Fusion::kBucket) return std::vector<std::size_t>(count, 1);
  if (fusion == Fusion::kAll || count == 1) return {count};
  const std::size_t first = nearest_to_half(bucket_lengths);
  return {first, count - first};
}

}  // namespace pliant::plan
