// SPDX-License-Identifier: MIT
// Encoders and decoders of values with a scale: float16, int8 and int4, one group of values at a
// time.
//
// Each encoder replaces `values` by what a decoder will make of them and writes `differences` =
// value - decoded, exactly. Why it is exact: decoded is a multiple of the scale's last bit. A scale
// is a bfloat16 (8 significant bits; a power of two for float16), so decoded has at most 15 of them
// and never overflows. A value is a multiple of its own last place, at most 2^-23 of it, and at
// least 2^-149. So either the scale's last bit is the coarser, and the difference is a multiple of
// the value's last place and, decoded being the nearest or towards zero, no larger than the value:
// it has at most 24 bits. Or the value is itself a multiple of a coarser step than decoded needs,
// and the difference is zero (float16 only).
//
// All of this holds in the default floating-point environment. Where denormals are flushed to zero,
// denormal differences are lost, but nothing else changes: no scale and no decoded value is
// denormal, so that ranks never disagree about them.
//
// Values must be finite. Sizes and alignment are free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pliant/kernels/magnitude.h"

namespace pliant::kernels {

// The bit pattern of the largest |x|, 0 for none. Not below kInfinityBits if any x is infinite or
// NaN.
[[nodiscard]] std::uint32_t max_magnitude(std::span<const float> values);

// A scale as it travels: the upper half of a float32.
using ScaleBits = std::uint16_t;
[[nodiscard]] float scale_value(ScaleBits bits);

// float16: the power of two that puts the largest magnitude into [2^14, 2^15): nothing overflows,
// and values keep all 11 bits down to 2^-29 of the largest. At least 2^-102, so that the smallest
// float16 step is a normal float32. int8, int4: the smallest normal bfloat16 not below the largest
// magnitude / 127 or / 7, but never so large that 127 or 7 times it overflows; 0 for a group of
// zeros.
[[nodiscard]] ScaleBits f16_scale(std::uint32_t max_magnitude);
[[nodiscard]] ScaleBits int8_scale(std::uint32_t max_magnitude);
[[nodiscard]] ScaleBits int4_scale(std::uint32_t max_magnitude);

// Could an encoder have chosen it? Then no value decoded with it overflows.
[[nodiscard]] bool is_f16_scale(ScaleBits bits);
[[nodiscard]] bool is_int8_scale(ScaleBits bits);
[[nodiscard]] bool is_int4_scale(ScaleBits bits);

// `scale` is what the function above chose for these values. `out` takes 2 bytes a value (IEEE 754
// binary16), 1 byte (two's complement, -127 to 127), or 4 bits (two's complement, -7 to 7; the
// lower half of a byte first; the last half byte of an odd count is 0). Rounding is to nearest,
// ties to even, but a float16 never rounds up to 2^15 (it could overflow float32).
void f16_encode(std::span<float> values, float scale, std::byte* out, float* differences);
void int8_encode(std::span<float> values, float scale, std::byte* out, float* differences);
void int4_encode(std::span<float> values, float scale, std::byte* out, float* differences);

// False if a value is one that no encoder writes (float16 from 2^15 up, int8 -128, int4 -8, an odd
// half byte): `values` are then meaningless. With a scale that passed is_..._scale all decoded
// values are finite.
[[nodiscard]] bool f16_decode(const std::byte* from, float scale, std::span<float> values);
[[nodiscard]] bool int8_decode(const std::byte* from, float scale, std::span<float> values);
[[nodiscard]] bool int4_decode(const std::byte* from, float scale, std::span<float> values);

// The twins: one value at a time.
namespace scalar {
[[nodiscard]] std::uint32_t max_magnitude(std::span<const float> values);
void f16_encode(std::span<float> values, float scale, std::byte* out, float* differences);
void int8_encode(std::span<float> values, float scale, std::byte* out, float* differences);
void int4_encode(std::span<float> values, float scale, std::byte* out, float* differences);
[[nodiscard]] bool f16_decode(const std::byte* from, float scale, std::span<float> values);
[[nodiscard]] bool int8_decode(const std::byte* from, float scale, std::span<float> values);
[[nodiscard]] bool int4_decode(const std::byte* from, float scale, std::span<float> values);
}  // namespace scalar

}  // namespace pliant::kernels
