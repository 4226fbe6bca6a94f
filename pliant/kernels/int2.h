// SPDX-License-Identifier: MIT
// Encoder and decoder of values in two bits, one group at a time: a sign, and one of two levels.
//
// A group is cut in two: magnitudes above their mean, and the rest. The level of either part is the
// mean of its magnitudes, rounded down to a bfloat16, with two limits that make every difference,
// value - decoded, an exact float32:
//  * at most twice the smallest magnitude of the part that is not zero. Then a value is at least
//    half of its level, and where it is at most twice the level the difference of two such floats
//    is exact. (Of a zero the difference is the level itself.)
//  * 0 if it is below 2^-15 of the largest magnitude of the part. Otherwise the last of the level's
//    8 bits is not finer than the last place of any value, so that the difference of a value of
//    more than twice the level is a multiple of that place, and smaller than the value.
// A level is never above the mean of its part, so that the differences of a group never have more
// energy than its values: what is sent always brings the residual down. Selected entries, whose
// magnitudes are alike, keep 80 to 99 % of their energy.
//
// Plain loops on every target: only selected entries come here, and coding their indices takes
// longer. Values must be finite. Sizes and alignment are free.
#pragma once

#include <cstddef>
#include <span>

#include "pliant/kernels/quantize.h"

namespace pliant::kernels {

struct Int2Levels {
  ScaleBits low = 0;
  ScaleBits high = 0;
  float above = 0;  // larger magnitudes take the high level; known to the encoder only
};

[[nodiscard]] Int2Levels int2_levels(std::span<const float> values);

// Could an encoder have chosen them? Then every decoded value is finite.
[[nodiscard]] bool are_int2_levels(ScaleBits low, ScaleBits high);

// `levels` are those of these values. `out` takes two bits a value: 1 if the level is the high one,
// plus 2 if the value is negative; four values a byte, the first in its lowest bits, spare bits 0.
// Replaces `values` by what a decoder makes of them and writes `differences`.
void int2_encode(std::span<float> values, const Int2Levels& levels, std::byte* out,
                 float* differences);

// False if spare bits are not 0: `values` are then meaningless.
[[nodiscard]] bool int2_decode(const std::byte* from, ScaleBits low, ScaleBits high,
                               std::span<float> values);

}  // namespace pliant::kernels
