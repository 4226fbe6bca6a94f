// SPDX-License-Identifier: MIT
#include <algorithm>

#include "pliant/kernels/rice.h"

namespace pliant::kernels::scalar {
namespace {

std::size_t words_of(std::size_t bits) { return (bits + 63) / 64; }

// A bit string that grows at its end, or is read from its start.
struct Bits {
  std::byte* bytes;
  std::size_t size = 0;

  void push(bool bit) {
    if (size % 64 == 0) std::fill_n(bytes + size / 8, 8, std::byte{0});
    if (bit) bytes[size / 8] |= std::byte{1} << (size % 8);
    ++size;
  }
};

bool bit_at(std::span<const std::byte> bytes, std::size_t i) {
  return (bytes[i / 8] >> (i % 8) & std::byte{1}) != std::byte{0};
}

}  // namespace

std::size_t rice_encode(std::span<const std::uint32_t> indices, int parameter, std::byte* out) {
  const std::size_t low_bytes = 8 * words_of(indices.size() * static_cast<std::size_t>(parameter));
  Bits low{out};
  Bits high{out + low_bytes};
  std::uint64_t next = 0;  // the smallest index that could follow
  for (const std::uint32_t index : indices) {
    const std::uint64_t gap = index - next;
    for (int b = 0; b < parameter; ++b) low.push((gap >> b & 1) != 0);
    for (std::uint64_t q = gap >> parameter; q > 0; --q) high.push(false);
    high.push(true);
    next = index + 1ULL;
  }
  return low_bytes + 8 * words_of(high.size);
}

std::optional<std::uint64_t> rice_decode(std::span<const std::byte> stream, int parameter,
                                         std::span<std::uint32_t> indices) {
  const std::size_t low_bits = indices.size() * static_cast<std::size_t>(parameter);
  const std::size_t low_bytes = 8 * words_of(low_bits);
  if (indices.empty() || stream.size() % 8 != 0 || stream.size() <= low_bytes) return std::nullopt;
  const auto high = stream.subspan(low_bytes);
  for (std::size_t i = low_bits; i < 8 * low_bytes; ++i) {
    if (bit_at(stream, i)) return std::nullopt;
  }
  std::uint64_t next = 0;
  std::size_t place = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::uint64_t gap = 0;
    for (int b = 0; b < parameter; ++b)
      gap |= std::uint64_t{bit_at(stream, i * static_cast<std::size_t>(parameter) + b)} << b;
    while (place < 8 * high.size() && !bit_at(high, place)) {
      gap += 1ULL << parameter;
      ++place;
    }
    if (place == 8 * high.size()) return std::nullopt;
    ++place;
    next += gap;
    indices[i] = static_cast<std::uint32_t>(next++);
  }
  if (high.size() != 8 * words_of(place)) return std::nullopt;
  for (; place < 8 * high.size(); ++place) {
    if (bit_at(high, place)) return std::nullopt;
  }
  return next - 1;
}

}  // namespace pliant::kernels::scalar
