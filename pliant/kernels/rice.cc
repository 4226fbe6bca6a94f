// SPDX-License-Identifier: MIT
#include "pliant/kernels/rice.h"

#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pliant/kernels/rice.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

// Words of bits, no vectors: compiled once per target for its bit instructions (tzcnt, blsr, shlx, popcnt).
HWY_BEFORE_NAMESPACE();
namespace pliant::kernels::HWY_NAMESPACE {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored as they are in memory, and the format is little-endian");

HWY_INLINE std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

HWY_INLINE std::byte* store_word(std::byte* to, std::uint64_t word) {
  std::memcpy(to, &word, sizeof(word));
  return to + sizeof(word);
}

std::size_t low_bytes_of(std::size_t count, int parameter) { return (count * static_cast<std::size_t>(parameter) + 63) / 64 * 8; }

std::size_t rice_encode(const std::uint32_t* HWY_RESTRICT indices, std::size_t count, int parameter, std::byte* HWY_RESTRICT out) {
  std::byte* low = out;
  std::byte* high = out + low_bytes_of(count, parameter);
  const std::uint32_t mask = (std::uint32_t{1} << parameter) - 1;
  std::uint64_t low_word = 0;
  std::uint64_t high_word = 0;
  int low_fill = 0;
  std::uint64_t place = 0;  // of the next one, from the start of high_word
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t gap = indices[i] - next;
    next = indices[i] + 1;

    const std::uint64_t part = gap & mask;
    low_word |= part << low_fill;
    low_fill += parameter;
    if (low_fill >= 64) {
      low = store_word(low, low_word);
      low_fill -= 64;
      low_word = part >> (parameter - low_fill);  // the shift is at most 31: a part has at most 31 bits
    }

    place += gap >> parameter;
    while (place >= 64) {
      high = store_word(high, high_word);
      high_word = 0;
      place -= 64;
    }
    high_word |= std::uint64_t{1} << place++;
  }
  if (low_fill > 0) store_word(low, low_word);
  // The last gap left its one in high_word, or just before it where the word was complete.
  if (count > 0) high = store_word(high, high_word);
  return static_cast<std::size_t>(high - out);
}

bool is_canonical(const std::byte* stream, std::size_t bytes, std::size_t count, int parameter) {
  const std::size_t low_bytes = low_bytes_of(count, parameter);
  if (count == 0 || bytes % 8 != 0 || bytes <= low_bytes || load_word(stream + bytes - 8) == 0) return false;
  const auto low_tail = static_cast<int>(count * static_cast<std::size_t>(parameter) % 64);
  if (low_tail > 0 && load_word(stream + low_bytes - 8) >> low_tail != 0) return false;
  std::size_t ones = 0;
  for (std::size_t at = low_bytes; at < bytes; at += 8) ones += static_cast<std::size_t>(std::popcount(load_word(stream + at)));
  return ones == count;
}

std::uint64_t rice_decode(const std::byte* HWY_RESTRICT stream, std::size_t bytes, int parameter, std::uint32_t* HWY_RESTRICT indices,
                          std::size_t count) {
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
      const std::uint64_t zeros = first_place + static_cast<std::uint64_t>(std::countr_zero(word)) - i;
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

std::optional<std::uint64_t> rice_decode(std::span<const std::byte> stream, int parameter, std::span<std::uint32_t> indices) {
  const std::uint64_t last = HWY_DYNAMIC_DISPATCH(rice_decode)(stream.data(), stream.size(), parameter, indices.data(), indices.size());
  if (last == ~std::uint64_t{0}) return std::nullopt;
  return last;
}

}  // namespace pliant::kernels
#endif
