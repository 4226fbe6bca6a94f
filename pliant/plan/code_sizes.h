// SPDX-License-Identifier: MIT
// Sizes of payloads before they are encoded: an upper bound, for receive room, and an estimate. The
// constants and rules here are part of the payload format (docs/formats/payload.md); the codec and
// the cost model both read them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pliant/common/units.h"
#include "pliant/plan/codes.h"

namespace pliant::plan {

struct Codes {
  IndexCode indices = IndexCode::kRice;
  ValueCode values = ValueCode::kF32;
  bool operator==(const Codes&) const = default;
};

// Streams that a payload has. The shared scheme sends a leader's indices alone, then values alone.
enum class Contents : std::uint8_t { kIndices = 1, kValues = 2, kBoth = 3 };

inline constexpr std::uint64_t kPayloadHeaderBytes = 64;

// Values that share a scale: one large value among small ones costs precision in its group only. A
// group is in the first-level cache while it is coded. int4 has 7 levels and loses much by a coarse
// scale: with groups of 1024 Adam's steps were worth 0.92 to 0.95, with groups of 64, whose scales
// add 6 % of bytes, 0.98 (docs/model.md). int2 has two scales, its levels: in a group of 128 they
// add 12 % of bytes.
inline constexpr std::uint64_t kMostScaleGroup = 1024;
constexpr std::uint64_t scale_group(ValueCode code) {
  if (code == ValueCode::kInt2) return 128;
  return code == ValueCode::kInt4 ? 64 : kMostScaleGroup;
}
constexpr std::uint64_t scale_bytes(ValueCode code) { return code == ValueCode::kInt2 ? 4 : 2; }

// Indices of one block16 block differ in their low 16 bits only.
inline constexpr std::uint64_t kIndexBlock = 65536;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }
// Streams and their parts end on 8 bytes, so that decoders read whole words.
constexpr std::uint64_t padded(std::uint64_t bytes) { return divide_up(bytes, 8) * 8; }

// The Rice parameter: how many low bits of a gap are stored as they are, for `count` indices below
// `length`. For gaps drawn with density d, b bits beat b + 1 as long as (1-d)^(2^b) <= 0.618 (where
// x + x^2 = 1). With -ln(1-d) close to k / (n - k/2) that is 2^b >= 0.4812 (n/k - 1/2), in integers
// so that every machine agrees: 0.4812 = 77/160.
constexpr int rice_parameter(std::uint64_t length, std::uint64_t count) {
  int parameter = 0;
  while (count > 0 && (320 * count) << parameter < 77 * (2 * length - count)) ++parameter;
  return parameter;
}

constexpr std::uint64_t rice_low_bytes(std::uint64_t count, int parameter) {
  return 8 * divide_up(count * static_cast<std::uint64_t>(parameter), 64);
}

// One bit ends each gap; the gaps add up to at most length - count, so their high parts to at most
// that >> parameter.
constexpr std::uint64_t rice_high_bytes_bound(std::uint64_t length, std::uint64_t count,
                                              int parameter) {
  return 8 * divide_up(count + ((length - count) >> parameter), 64);
}

// The index stream of exactly `count` indices, however they lie (raw32 and block16: exact).
constexpr std::uint64_t index_stream_bound(IndexCode code, std::uint64_t length,
                                           std::uint64_t count) {
  if (count == 0) return 0;
  if (code == IndexCode::kRaw32) return padded(4 * count);
  if (code == IndexCode::kBlock16) return padded(4 * divide_up(length, kIndexBlock) + 2 * count);
  const int parameter = rice_parameter(length, count);
  return rice_low_bytes(count, parameter) + rice_high_bytes_bound(length, count, parameter);
}

// The value stream of exactly `count` values; exact for every code.
constexpr std::uint64_t value_stream_bytes(ValueCode code, std::uint64_t count) {
  if (code == ValueCode::kF32) return padded(4 * count);
  const std::uint64_t scales = padded(scale_bytes(code) * divide_up(count, scale_group(code)));
  if (code == ValueCode::kF16) return scales + padded(2 * count);
  if (code == ValueCode::kInt8) return scales + padded(count);
  return scales + padded(divide_up(count, code == ValueCode::kInt4 ? 2 : 4));
}

// Room that is enough for a payload of at most `count` entries of a span of `length`, wherever they
// lie.
constexpr Bytes encoded_bound(std::uint64_t length, std::uint64_t count, Codes codes,
                              Contents contents = Contents::kBoth) {
  std::uint64_t indices = 0;
  if (contents != Contents::kValues) indices = index_stream_bound(codes.indices, length, count);
  if (indices > 0 && codes.indices == IndexCode::kRice) {
    // Fewer entries have a larger parameter and, just past a switch, a slightly larger bound: the
    // most entries that have parameter b are one fewer than satisfy the rule of rice_parameter with
    // b - 1.
    for (int b = rice_parameter(length, count) + 1; b < 32; ++b) {
      const std::uint64_t most = (154 * length - 1) / ((160ULL << b) + 77);
      indices =
          std::max(indices, index_stream_bound(IndexCode::kRice, length, std::min(count, most)));
    }
  }
  const std::uint64_t values =
      contents == Contents::kIndices ? 0 : value_stream_bytes(codes.values, count);
  return {static_cast<std::int64_t>(kPayloadHeaderBytes + indices + values)};
}

// The size to expect of a payload of `count` entries that lie anywhere with equal probability. The
// same on every machine: only multiplications and divisions. Indices that cluster take fewer bytes
// with Rice.
constexpr Bytes encoded_estimate(std::uint64_t length, std::uint64_t count, Codes codes,
                                 Contents contents = Contents::kBoth) {
  const Bytes bound = encoded_bound(length, count, codes, contents);
  if (codes.indices != IndexCode::kRice || contents == Contents::kValues || count == 0)
    return bound;
  const int parameter = rice_parameter(length, count);
  double beyond =
      1 - static_cast<double>(count) /
              static_cast<double>(length);  // P(gap >= 2^0), squared up to P(gap >= 2^b)
  for (int b = 0; b < parameter; ++b) beyond *= beyond;
  const double high_bits =
      static_cast<double>(count) / (1 - beyond);  // 1 + E[gap >> b] each; gaps are geometric
  const auto high = std::min(8 * divide_up(static_cast<std::uint64_t>(high_bits), 64),
                             rice_high_bytes_bound(length, count, parameter));
  const std::uint64_t values =
      contents == Contents::kIndices ? 0 : value_stream_bytes(codes.values, count);
  return {static_cast<std::int64_t>(kPayloadHeaderBytes + rice_low_bytes(count, parameter) + high +
                                    values)};
}

}  // namespace pliant::plan
