// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/problem.h"

#include <algorithm>
#include <array>

#include "pliant/common/split.h"

namespace pliant::bench {
namespace {

using schedule::Collective;

// Contributions repeat with this period, coprime to every block size that is a power of two, and
// lie in -8..8: a sum over a million ranks is still exact.
constexpr std::size_t kPeriod = 17;
constexpr float kUnset = -12345;

float contribution(int rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 7 + i) % kPeriod) - 8;
}

std::array<float, kPeriod> sums(int ranks) {
  std::array<float, kPeriod> totals{};
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < kPeriod; ++i) totals[i] += contribution(rank, i);
  }
  return totals;
}

struct Range {
  std::size_t begin, end;
};

Range part_of(const Problem& problem, int rank) {
  const auto ranks = static_cast<std::size_t>(problem.ranks);
  const auto r = static_cast<std::size_t>(rank);
  return {split_point(problem.count, ranks, r), split_point(problem.count, ranks, r + 1)};
}

std::int64_t count_copied_wrong(std::span<const float> data, Range range, int from) {
  std::int64_t wrong = 0;
  for (std::size_t i = range.begin; i < range.end; ++i)
    wrong += data[i] == contribution(from, i) ? 0 : 1;
  return wrong;
}

std::int64_t count_summed_wrong(std::span<const float> data, Range range, int ranks) {
  const auto expected = sums(ranks);
  std::int64_t wrong = 0;
  for (std::size_t i = range.begin; i < range.end; ++i)
    wrong += data[i] == expected[i % kPeriod] ? 0 : 1;
  return wrong;
}

}  // namespace

Problem make_problem(Collective collective, int ranks, int root, std::size_t bytes) {
  const auto parts = static_cast<std::size_t>(ranks);
  std::size_t count = std::max<std::size_t>(1, bytes / sizeof(float));
  if (collective == Collective::kAllGather || collective == Collective::kReduceScatter)
    count = std::max(parts, count / parts * parts);
  return {collective, ranks, root, count};
}

void fill(const Problem& problem, int rank, std::span<float> data) {
  Range brings{0, problem.count};
  if (problem.collective == Collective::kAllGather) brings = part_of(problem, rank);
  if (problem.collective == Collective::kBroadcast && rank != problem.root) brings = {0, 0};
  for (std::size_t i = 0; i < problem.count; ++i)
    data[i] = i >= brings.begin && i < brings.end ? contribution(rank, i) : kUnset;
}

std::int64_t count_wrong(const Problem& problem, int rank, std::span<const float> data) {
  const Range all{0, problem.count};
  switch (problem.collective) {
    case Collective::kAllReduce:
      return count_summed_wrong(data, all, problem.ranks);
    case Collective::kReduceScatter:
      return count_summed_wrong(data, part_of(problem, rank), problem.ranks);
    case Collective::kBroadcast:
      return count_copied_wrong(data, all, problem.root);
    case Collective::kAllGather:
      break;
  }
  std::int64_t wrong = 0;
  for (int from = 0; from < problem.ranks; ++from)
    wrong += count_copied_wrong(data, part_of(problem, from), from);
  return wrong;
}

std::span<float> own_part(const Problem& problem, int rank, std::span<float> data) {
  const Range range = part_of(problem, rank);
  return data.subspan(range.begin, range.end - range.begin);
}

double bus_factor(const Problem& problem) {
  const double n = problem.ranks;
  switch (problem.collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kBroadcast:
      return problem.ranks > 1 ? 1 : 0;
    default:
      return (n - 1) / n;
  }
}

Seconds bandwidth_bound(const Problem& problem, const plan::Link& link) {
  return {bus_factor(problem) * static_cast<double>(problem.count * sizeof(float)) *
          link.seconds_per_byte};
}

}  // namespace pliant::bench
