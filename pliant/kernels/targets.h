// SPDX-License-Identifier: MIT
// SIMD instruction sets that the kernels can use on this CPU, with a way for tests and `doctor` to
// choose one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pliant::kernels {

struct Target {
  std::int64_t id;
  std::string name;  // "AVX2", "AVX3_DL", ...
};

// Every target that is both compiled in and supported by this CPU, best first.
[[nodiscard]] std::vector<Target> targets();

// While it lives, kernels run on this one target. For tests only: process-wide, one at a time, no
// kernel running.
class PinnedTarget {
 public:
  explicit PinnedTarget(const Target& target);
  ~PinnedTarget();
  PinnedTarget(const PinnedTarget&) = delete;
  PinnedTarget& operator=(const PinnedTarget&) = delete;
};

}  // namespace pliant::kernels
