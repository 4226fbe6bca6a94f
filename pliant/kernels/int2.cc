// SPDX-License-Identifier: MIT
#include "pliant/kernels/int2.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace pliant::kernels {
namespace {

constexpr std::uint32_t kSign = 0x80000000;
constexpr ScaleBits kLeastLevel = 0x0080;     // the smallest normal float32
constexpr ScaleBits kGreatestLevel = 0x7F7F;  // the last bfloat16 below infinity

// The magnitudes of one of the two parts of a group.
struct Part {
  double sum = 0;
  std::uint32_t count = 0;
  std::uint32_t least = kInfinityBits;  // bit patterns; of those that are not zero
  std::uint32_t most = 0;

  void add(std::uint32_t bits) {
    sum += double{std::bit_cast<float>(bits)};
    ++count;
    least = std::min(least, bits == 0 ? kInfinityBits : bits);
    most = std::max(most, bits);
  }

  [[nodiscard]] ScaleBits level() const {
    if (most == 0) return 0;
    const double mean = sum / count;
    const double exact = std::min(mean, 2 * double{std::bit_cast<float>(least)});
    if (exact < 0x1p-15 * double{std::bit_cast<float>(most)}) return 0;
    // Towards zero twice: to float32, whose nearest could be above, and to its upper half.
    auto nearest = static_cast<float>(exact);
    if (double{nearest} > exact)
      nearest = std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) - 1);
    const auto level = static_cast<ScaleBits>(std::bit_cast<std::uint32_t>(nearest) >> 16);
    return level < kLeastLevel ? ScaleBits{0} : level;
  }
};

// Decoded values, by code.
std::array<std::uint32_t, 4> table(ScaleBits low, ScaleBits high) {
  const std::uint32_t small = std::uint32_t{low} << 16;
  const std::uint32_t large = std::uint32_t{high} << 16;
  return {small, large, small | kSign, large | kSign};
}

}  // namespace

Int2Levels int2_levels(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{magnitude(value)};
  const float mean =
      values.empty() ? 0 : static_cast<float>(sum / static_cast<double>(values.size()));
  Part low;
  Part high;
  for (const float value : values) {
    const std::uint32_t bits = magnitude_bits(value);
    (bits > std::bit_cast<std::uint32_t>(mean) ? high : low).add(bits);
  }
  const ScaleBits small = low.level();
  return {.low = small, .high = std::max(small, high.level()), .above = mean};
}

bool are_int2_levels(ScaleBits low, ScaleBits high) {
  const auto is_level = [](ScaleBits bits) {
    return bits == 0 || (bits >= kLeastLevel && bits <= kGreatestLevel);
  };
  return is_level(low) && is_level(high) && low <= high;
}

void int2_encode(std::span<float> values, const Int2Levels& levels, std::byte* out,
                 float* differences) {
  const auto decoded = table(levels.low, levels.high);
  const auto above = std::bit_cast<std::uint32_t>(levels.above);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    std::uint32_t coded = 0;
    for (std::size_t j = i; j < std::min(i + 4, values.size()); ++j) {
      const auto bits = std::bit_cast<std::uint32_t>(values[j]);
      const std::uint32_t code = ((bits & kMagnitudeMask) > above ? 1U : 0U) | bits >> 31 << 1;
      coded |= code << 2 * (j - i);
      differences[j] = values[j] - std::bit_cast<float>(decoded[code]);
      values[j] = std::bit_cast<float>(decoded[code]);
    }
    out[i / 4] = static_cast<std::byte>(coded);
  }
}

bool int2_decode(const std::byte* from, ScaleBits low, ScaleBits high, std::span<float> values) {
  const auto decoded = table(low, high);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = std::to_integer<std::size_t>(from[i / 4] >> 2 * (i % 4) & std::byte{3});
    values[i] = std::bit_cast<float>(decoded[code]);
  }
  const std::size_t in_last = values.size() % 4;
  return in_last == 0 || from[values.size() / 4] >> 2 * in_last == std::byte{0};
}

}  // namespace pliant::kernels
