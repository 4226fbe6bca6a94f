// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "pliant/kernels/quantize.h"

namespace pliant::kernels {
namespace {

// The least and the greatest exponent field of a float16 scale: 2^-102 and 2^113.
constexpr std::uint32_t kF16LeastField = 25;
constexpr std::uint32_t kF16GreatestField = 240;

// The smallest normal float32, 2^-126.
constexpr ScaleBits kLeastIntegerScale = 0x0080;

constexpr ScaleBits greatest_scale(int levels) {
  return static_cast<ScaleBits>(
      std::bit_cast<std::uint32_t>(FLT_MAX / static_cast<float>(levels)) >> 16);
}

ScaleBits integer_scale(std::uint32_t max_magnitude, int levels) {
  if (max_magnitude == 0) return 0;
  const auto exact = std::bit_cast<std::uint32_t>(std::bit_cast<float>(max_magnitude) /
                                                  static_cast<float>(levels));
  const auto up = static_cast<ScaleBits>((exact + 0xFFFF) >> 16);
  return std::clamp(up, kLeastIntegerScale, greatest_scale(levels));
}

bool is_integer_scale(ScaleBits bits, int levels) {
  return bits == 0 || (bits >= kLeastIntegerScale && bits <= greatest_scale(levels));
}

}  // namespace

float scale_value(ScaleBits bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

ScaleBits f16_scale(std::uint32_t max_magnitude) {
  const std::uint32_t field = max_magnitude >> 23;
  return static_cast<ScaleBits>((std::max(field, kF16LeastField + 14) - 14) << 7);
}
ScaleBits int8_scale(std::uint32_t max_magnitude) { return integer_scale(max_magnitude, 127); }
ScaleBits int4_scale(std::uint32_t max_magnitude) { return integer_scale(max_magnitude, 7); }

bool is_f16_scale(ScaleBits bits) {
  return bits % 128 == 0 && bits >> 7 >= kF16LeastField && bits >> 7 <= kF16GreatestField;
}
bool is_int8_scale(ScaleBits bits) { return is_integer_scale(bits, 127); }
bool is_int4_scale(ScaleBits bits) { return is_integer_scale(bits, 7); }

namespace scalar {
namespace {

constexpr std::uint32_t kSign = 0x80000000;
constexpr std::uint16_t kGreatestF16 = 0x77FF;  // the last float16 below 2^15

std::uint16_t to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & ~kSign;
  std::uint32_t half;
  if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14F)) {
    // In [0.5, 1) the last place of a float32 is 2^-24, the smallest float16: the addition rounds.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
           std::bit_cast<std::uint32_t>(0.5F);
  } else {
    half = (magnitude + 0xFFF + (magnitude >> 13 & 1) - (112U << 23)) >> 13;
  }
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(half, kGreatestF16) |
                                    (bits & kSign) >> 16);
}

float from_f16(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7FFF;
  const float x = magnitude < 0x400 ? static_cast<float>(magnitude) * 0x1p-24F
                                    : std::bit_cast<float>((magnitude << 13) + (112U << 23));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) | std::uint32_t{half} >> 15 << 31);
}

std::int8_t to_integer(float value, float scale) {
  return scale == 0 ? std::int8_t{0} : static_cast<std::int8_t>(std::nearbyint(value / scale));
}

void replace(float& value, float decoded, float& difference) {
  difference = value - decoded;
  value = decoded;
}

}  // namespace

std::uint32_t max_magnitude(std::span<const float> values) {
  std::uint32_t most = 0;
  for (const float x : values) most = std::max(most, magnitude_bits(x));
  return most;
}

void f16_encode(std::span<float> values, float scale, std::byte* out, float* differences) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = to_f16(values[i] * (1 / scale));
    std::memcpy(out + 2 * i, &half, 2);
    replace(values[i], from_f16(half) * scale, differences[i]);
  }
}

void int8_encode(std::span<float> values, float scale, std::byte* out, float* differences) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int8_t q = to_integer(values[i], scale);
    out[i] = std::bit_cast<std::byte>(q);
    replace(values[i], static_cast<float>(q) * scale, differences[i]);
  }
}

void int4_encode(std::span<float> values, float scale, std::byte* out, float* differences) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int8_t q = to_integer(values[i], scale);
    const std::byte half = std::bit_cast<std::byte>(q) & std::byte{15};
    out[i / 2] = i % 2 == 0 ? half : out[i / 2] | half << 4;
    replace(values[i], static_cast<float>(q) * scale, differences[i]);
  }
}

bool f16_decode(const std::byte* from, float scale, std::span<float> values) {
  bool valid = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, from + 2 * i, 2);
    valid = valid && (half & 0x7FFF) <= kGreatestF16;
    values[i] = from_f16(half) * scale;
  }
  return valid;
}

bool int8_decode(const std::byte* from, float scale, std::span<float> values) {
  bool valid = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto q = std::bit_cast<std::int8_t>(from[i]);
    valid = valid && q != -128;
    values[i] = static_cast<float>(q) * scale;
  }
  return valid;
}

bool int4_decode(const std::byte* from, float scale, std::span<float> values) {
  bool valid = values.size() % 2 == 0 || (from[values.size() / 2] >> 4) == std::byte{0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto half =
        std::to_integer<int>(i % 2 == 0 ? from[i / 2] & std::byte{15} : from[i / 2] >> 4);
    const int q = (half ^ 8) - 8;
    valid = valid && q != -8;
    values[i] = static_cast<float>(q) * scale;
  }
  return valid;
}

}  // namespace scalar
}  // namespace pliant::kernels
