// SPDX-License-Identifier: MIT
#include "pliant/kernels/rice.h"

#include <array>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pliant/kernels/rice.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

// Words of bits, no vectors: compiled once per target for its bit instructions (tzcnt, blsr, shlx,
// popcnt).
HWY_BEFORE_NAMESPACE();
namespace pliant::kernels::HWY_NAMESPACE {
namespace {

static_assert(std::endian::native == std::endian::little,
              "words are stored as they are in memory, and the format is little-endian");

HWY_INLINE std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

HWY_INLINE std::byte* store_word(std::byte* to, std::uint64_t word) {
  std::memcpy(to, &word, sizeof(word));
  return to + sizeof(word);
}

std::size_t low_bytes_of(std::size_t count, int parameter) {
  return (count * static_cast<std::size_t>(parameter) + 63) / 64 * 8;
}

// Bit strings of up to 62 bits, one after the other.
struct LowPlane {
  std::byte* out;
  std::uint64_t word = 0;
  int fill = 0;

  HWY_INLINE void push(std::uint64_t bits, int count) {
    word |= bits << fill;
    fill += count;
    if (fill >= 64) {
      out = store_word(out, word);
      fill -= 64;
      word = bits >> (count - fill);
    }
  }
  HWY_INLINE void finish() {
    if (fill > 0) store_word(out, word);
  }
};

struct HighPlane {
  std::byte* out;
  std::uint64_t word = 0;
  std::uint64_t place = 0;  // of the next one, from the start of word

  HWY_INLINE void push(std::uint32_t zeros) {
    place += zeros;
    while (place >= 64) {
      out = store_word(out, word);
      word = 0;
      place -= 64;
    }
    word |= std::uint64_t{1} << place++;
  }
  // The last one is always in `word`: a complete word stays there until the next gap.
  HWY_INLINE void finish() { out = store_word(out, word); }
};

// Gaps are split 64 at a time, in loops of fixed length that the compiler turns into vectors; only
// then do they meet the planes. Low parts are joined in pairs on the way, and pairs in fours where
// they fit: a branch for each push, not each gap.
constexpr std::size_t kBlock = 64;

struct SplitGaps {
  alignas(64) std::array<std::uint32_t, kBlock> high;
  alignas(64) std::array<std::uint64_t, kBlock / 2> low_pairs;
};

HWY_INLINE void split_gaps(const std::uint32_t* HWY_RESTRICT indices, int parameter,
                           SplitGaps& split) {
  const std::uint32_t mask = (std::uint32_t{1} << parameter) - 1;
  alignas(64) std::array<std::uint32_t, kBlock> low;
  for (std::size_t j = 0; j < kBlock; ++j) {
    const std::uint32_t gap = indices[j] - indices[static_cast<std::ptrdiff_t>(j) - 1] - 1;
    split.high[j] = gap >> parameter;
    low[j] = gap & mask;
  }
  for (std::size_t j = 0; j < kBlock / 2; ++j)
    split.low_pairs[j] = low[2 * j] | std::uint64_t{low[2 * j + 1]} << parameter;
}

std::size_t rice_encode(const std::uint32_t* HWY_RESTRICT indices, std::size_t count, int parameter,
                        std::byte* HWY_RESTRICT out) {
  if (count == 0) return 0;
  LowPlane low{out};
  HighPlane high{out + low_bytes_of(count, parameter)};
  const std::uint32_t mask = (std::uint32_t{1} << parameter) - 1;
  const auto push = [&](std::uint32_t gap) HWY_ATTR {
    low.push(gap & mask, parameter);
    high.push(gap >> parameter);
  };
  push(indices[0]);
  std::size_t i = 1;
  SplitGaps split;
  for (; i + kBlock <= count; i += kBlock) {
    split_gaps(indices + i, parameter, split);
    if (parameter <= 15) {
      for (std::size_t j = 0; j < kBlock / 2; j += 2) {
        low.push(split.low_pairs[j] | split.low_pairs[j + 1] << 2 * parameter, 4 * parameter);
      }
    } else {
      for (const std::uint64_t pair : split.low_pairs) low.push(pair, 2 * parameter);
    }
    for (const std::uint32_t zeros : split.high) high.push(zeros);
  }
  for (; i < count; ++i) push(indices[i] - indices[i - 1] - 1);
  low.finish();
  high.finish();
  return static_cast<std::size_t>(high.out - out);
}

bool is_canonical(const std::byte* stream, std::size_t bytes, std::size_t count, int parameter) {
  const std::size_t low_bytes = low_bytes_of(count, parameter);
  if (count == 0 || bytes % 8 != 0 || bytes <= low_bytes || load_word(stream + bytes - 8) == 0)
    return false;
  const auto low_tail = static_cast<int>(count * static_cast<std::size_t>(parameter) % 64);
  if (low_tail > 0 && load_word(stream + low_bytes - 8) >> low_tail != 0) return false;
  std::size_t ones = 0;
  for (std::size_t at = low_bytes; at < bytes; at += 8)
    ones += static_cast<std::size_t>(std::popcount(load_word(stream + at)));
  return ones == count;
}

std::uint64_t rice_decode(const std::byte* HWY_RESTRICT stream, std::size_t bytes, int parameter,
                          std::uint32_t* HWY_RESTRICT indices, std::size_t count) {
  if (!is_canonical(stream, bytes, count, parameter)) return ~std::uint64_t{0};
  // A load of 8 bytes that starts in the low plane may end in the high plane, which is never empty.
  const std::size_t low_bytes = low_bytes_of(count, parameter);
  const std::uint64_t mask = (std::uint64_t{1} << parameter) - 1;
  const auto step = static_cast<std::size_t>(parameter);
  std::uint64_t low_sum = 0;
  std::uint64_t index = 0;
  std::size_t bit = 0;
  std::size_t i = 0;
  for (std::size_t at = low_bytes; at < bytes; at += 8) {
    const std::uint64_t first_place = 8 * (at - low_bytes);
    for (std::uint64_t word = load_word(stream + at); word != 0; word &= word - 1) {
      const std::uint64_t zeros =
          first_place + static_cast<std::uint64_t>(std::countr_zero(word)) - i;
      low_sum += (load_word(stream + bit / 8) >> bit % 8) & mask;
      bit += step;
      index = (zeros << parameter) + low_sum + i;
      indices[i++] = static_cast<std::uint32_t>(index);
    }
  }
  return index;
}

}  // namespace
}  // namespace pliant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pliant::kernels {

HWY_EXPORT(rice_encode);
HWY_EXPORT(rice_decode);

std::size_t rice_encode(std::span<const std::uint32_t> indices, int parameter, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(rice_encode)(indices.data(), indices.size(), parameter, out);
}

std::optional<std::uint64_t> rice_decode(std::span<const std::byte> stream, int parameter,
                                         std::span<std::uint32_t> indices) {
  const std::uint64_t last = HWY_DYNAMIC_DISPATCH(rice_decode)(
      stream.data(), stream.size(), parameter, indices.data(), indices.size());
  if (last == ~std::uint64_t{0}) return std::nullopt;
  return last;
}

}  // namespace pliant::kernels
#endif
