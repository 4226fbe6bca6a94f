// SPDX-License-Identifier: MIT
// Rice code of the gaps between sorted indices, in two planes of bits, least significant bit first
// in little-endian words:
//   low plane   `parameter` bits of each gap, one after the other, zero up to the next 8 bytes;
//   high plane  for each gap as many zeros as its remaining high part says, then a one; zero up to
//   the next 8 bytes.
// The gap of the first index is the index itself, of any other its distance from the one before,
// less one. With the planes apart, the place of the i-th one gives the sum of all high parts up to
// index i at once, so that decoding is a scan for ones and a running sum of low parts, with one
// hard-to-foresee branch a word instead of one an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace pliant::kernels {

// Writes both planes of `indices` (strictly increasing) to `out`, which the caller made large
// enough (plan::index_stream_bound); returns the bytes written. 0 <= parameter < 32.
[[nodiscard]] std::size_t rice_encode(std::span<const std::uint32_t> indices, int parameter,
                                      std::byte* out);

// Fills `indices` and returns the last one in 64 bits, for the caller to compare with the span's
// length: only then are all of them below it. Nothing if the stream is not exactly what rice_encode
// writes for that many indices. A stream whose high plane is longer than 2^32 bits must be refused
// before.
[[nodiscard]] std::optional<std::uint64_t> rice_decode(std::span<const std::byte> stream,
                                                       int parameter,
                                                       std::span<std::uint32_t> indices);

// The twins: one bit at a time.
namespace scalar {
[[nodiscard]] std::size_t rice_encode(std::span<const std::uint32_t> indices, int parameter,
                                      std::byte* out);
[[nodiscard]] std::optional<std::uint64_t> rice_decode(std::span<const std::byte> stream,
                                                       int parameter,
                                                       std::span<std::uint32_t> indices);
}  // namespace scalar

}  // namespace pliant::kernels
