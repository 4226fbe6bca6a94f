// SPDX-License-Identifier: MIT
// Floats for tests: every kind of data a bucket may hold, at any alignment.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace pliant::kernels {

enum class Kind { kGaussian, kZeros, kEqual, kDenormal, kHuge, kAnyBits };
inline constexpr int kKinds = 6;

inline float nasty_float(Kind kind, std::mt19937_64& random) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  switch (kind) {
    case Kind::kGaussian:
      return std::normal_distribution<float>()(random);
    case Kind::kZeros:
      return random() % 2 != 0 ? 0.0F : -0.0F;
    case Kind::kEqual:
      return random() % 2 != 0 ? 0.5F : -0.5F;
    case Kind::kDenormal:
      return std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0x807fffffU));
    case Kind::kHuge:
      return random() % 2 != 0 ? kLargest : -0.75F * kLargest;
    case Kind::kAnyBits:
      return std::bit_cast<float>(static_cast<std::uint32_t>(random()));  // infinities and NaN too
  }
  return 0;
}

// `n` floats that start `shift` floats after an aligned address.
class ShiftedFloats {
 public:
  ShiftedFloats(std::size_t n, std::size_t shift) : all_(n + shift), shift_(shift) {}
  ShiftedFloats(Kind kind, std::size_t n, std::size_t shift, std::mt19937_64& random)
      : ShiftedFloats(n, shift) {
    for (float& x : span()) x = nasty_float(kind, random);
  }
  [[nodiscard]] std::span<float> span() { return std::span(all_).subspan(shift_); }

 private:
  std::vector<float> all_;
  std::size_t shift_;
};

inline std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  bits.reserve(values.size());
  for (const float x : values) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

}  // namespace pliant::kernels
