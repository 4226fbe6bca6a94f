// SPDX-License-Identifier: MIT
// Total order on entries: by the bit pattern of |x|, so that zeros, denormals and NaN have the same
// place on every machine. The sums and sample positions of a pass are defined here too, for all
// targets.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace pliant::kernels {

inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffffU;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000U;

// For finite x and y, magnitude_bits(x) < magnitude_bits(y) exactly if |x| < |y|.
constexpr std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & kMagnitudeMask;
}
constexpr float magnitude(float x) { return std::bit_cast<float>(magnitude_bits(x)); }
constexpr bool is_finite(float x) { return magnitude_bits(x) < kInfinityBits; }

// Sum of a residual entry and a contribution. A sum that is not finite leaves
// the residual as it was, and a residual that was not finite (no pass leaves one behind) counts as
// zero.
constexpr float accumulated(float residual, float contribution) {
  const float sum = residual + contribution;
  if (is_finite(sum)) return sum;
  return is_finite(residual) ? residual : 0.0F;
}

// Index of the sampled entry in a group of `period` entries (a power of two). It moves about
// from group to group, so that data with a period of their own, such as the rows of a matrix,
// cannot hide from the sample.
constexpr std::size_t sampled_entry(std::uint64_t group, std::uint32_t period) {
  return static_cast<std::size_t>((group * 0x9E3779B97F4A7C15U) >> 32U) & (period - 1);
}

}  // namespace pliant::kernels
