// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/predict.h"

#include <algorithm>

#include "pliant/common/split.h"
#include "pliant/model/price.h"

namespace pliant::bench {
namespace {

constexpr int kMostSegments = 512;

}  // namespace

// Powers of two and what lies half-way: the price is flat near its minimum, sqrt-shaped in the
// segments around it, so a step of at most 1.5 costs less than 3 %.
std::vector<int> segment_candidates() {
  std::vector<int> candidates = {1};
  for (int power = 2; power <= kMostSegments; power *= 2) {
    candidates.push_back(power);
    if (power < kMostSegments) candidates.push_back(power + power / 2);
  }
  return candidates;
}

Seconds predict(const schedule::Builder& builder, const Problem& problem, int segments,
                const plan::Link& link) {
  const schedule::Shape shape{problem.ranks, problem.root, segments};
  const auto points = split_points(problem.count, static_cast<std::size_t>(builder.blocks(shape)));
  std::vector<double> block_bytes;
  for (std::size_t b = 1; b < points.size(); ++b)
    block_bytes.push_back(static_cast<double>((points[b] - points[b - 1]) * sizeof(float)));
  return model::price(schedule::build_all(builder, shape), block_bytes,
                      plan::uniform_world(problem.ranks, link).links);
}

int best_segments(const schedule::Builder& builder, const Problem& problem,
                  const plan::Link& link) {
  return std::ranges::min(segment_candidates(), {},
                          [&](int segments) { return predict(builder, problem, segments, link); });
}

}  // namespace pliant::bench
