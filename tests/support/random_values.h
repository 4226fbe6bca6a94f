// SPDX-License-Identifier: MIT
// Contributions as tests like them, and how results are compared.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace pliant::testing {

// Mostly normal numbers, of a scale that changes from step to step, with zeros, equals and a few
// large ones among them.
inline std::vector<float> random_values(std::uint64_t seed, std::size_t n) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const float scale = std::ldexp(1.0F, static_cast<int>(random() % 20) - 10);
  std::vector<float> values(n);
  for (float& value : values) {
    const auto kind = random() % 16;
    value = kind == 0   ? 0.0F
            : kind == 1 ? scale
            : kind == 2 ? normal(random) * scale * 100
                        : normal(random) * scale;
  }
  return values;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace pliant::testing
