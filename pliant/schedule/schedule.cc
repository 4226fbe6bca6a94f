// SPDX-License-Identifier: MIT
#include "pliant/schedule/schedule.h"

#include <algorithm>
#include <bit>

#include "pliant/common/errors.h"

namespace pliant::schedule {

Schedule concatenate(Schedule first, const Schedule& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Schedule backwards(Schedule spreading) {
  std::ranges::reverse(spreading);
  for (Round& round : spreading) {
    std::swap(round.sends, round.receives);
    round.on_arrival = OnArrival::kCombine;
  }
  return spreading;
}

int ceil_log2(int size) { return std::bit_width(static_cast<unsigned>(size - 1)); }

bool is_power_of_two(int size) { return std::has_single_bit(static_cast<unsigned>(size)); }

std::vector<int> block_range(int first, int count, int size) {
  std::vector<int> blocks;
  blocks.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) blocks.push_back((first + i) % size);
  return blocks;
}

void check_rank(int rank, int size) {
  require(size >= 1 && rank >= 0 && rank < size, "schedule: rank {} is not in 0..{}", rank,
          size - 1);
}

void check_broadcast(int rank, int size, int root, int segments) {
  check_rank(rank, size);
  require(root >= 0 && root < size, "schedule: root {} is not in 0..{}", root, size - 1);
  require(segments >= 1, "schedule: {} segments, at least 1 is needed", segments);
}

}  // namespace pliant::schedule
