// SPDX-License-Identifier: MIT
// Distributions that gradients resemble, for tests and benchmarks.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace pliant::compress {

enum class Distribution : std::uint8_t { kGaussian, kLaplace, kHeavyTail };
inline constexpr std::array kDistributions = {Distribution::kGaussian, Distribution::kLaplace,
                                              Distribution::kHeavyTail};

constexpr std::string_view to_string(Distribution distribution) {
  constexpr std::array<std::string_view, 3> names = {"gaussian", "laplace", "heavy tail"};
  return names.at(static_cast<std::size_t>(distribution));
}

// Heavy tail: Student's t with 3 degrees of freedom, whose variance is finite and whose fourth
// moment is not.
inline float draw(Distribution distribution, std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11U) + 0.5) * 0x1p-53; };
  const auto gaussian = [&] {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * 3.14159265358979 * uniform());
  };
  switch (distribution) {
    case Distribution::kGaussian:
      return static_cast<float>(gaussian());
    case Distribution::kLaplace:
      return static_cast<float>((random() % 2 != 0 ? 1 : -1) * std::log(uniform()));
    case Distribution::kHeavyTail: {
      const double a = gaussian(), b = gaussian(), c = gaussian();
      return static_cast<float>(gaussian() / std::sqrt((a * a + b * b + c * c) / 3));
    }
  }
  return 0;
}

inline void draw_all(Distribution distribution, float scale, std::mt19937_64& random,
                     std::span<float> values) {
  for (float& x : values) x = scale * draw(distribution, random);
}

}  // namespace pliant::compress
