// SPDX-License-Identifier: MIT
// Rule for cutting a span into blocks. The runner of schedules and the cost model both use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pliant {

// Where block b begins if `total` is cut into `count` blocks that differ by at most one; b = count
// gives total.
[[nodiscard]] constexpr std::size_t split_point(std::size_t total, std::size_t count,
                                                std::size_t b) {
  return total / count * b + total % count * b / count;
}

// All count + 1 of them.
[[nodiscard]] inline std::vector<std::size_t> split_points(std::size_t total, std::size_t count) {
  std::vector<std::size_t> points;
  points.reserve(count + 1);
  for (std::size_t b = 0; b <= count; ++b) points.push_back(split_point(total, count, b));
  return points;
}

}  // namespace pliant
