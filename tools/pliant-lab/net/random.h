// SPDX-License-Identifier: MIT
// Seeded random numbers, one stream per path, so that the losses of one flow do not depend on the
// traffic of another.
#pragma once

#include <cstdint>

namespace pliant::lab {

// SplitMix64: eight bytes of state, passes BigCrush.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0) : state_(seed) {}
  [[nodiscard]] std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  [[nodiscard]] double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  std::uint64_t state_;
};

}  // namespace pliant::lab
