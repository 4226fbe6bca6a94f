// SPDX-License-Identifier: MIT
// Loops over whole buckets. Same bits on every SIMD target; pliant::kernels::scalar has the plain
// twins. Spans of one call have the same length; `to` and `from` may be the same span, but not
// overlap otherwise.
#pragma once

#include <algorithm>
#include <span>

namespace pliant::kernels {

// to += from. A sum that is not a number is always the same NaN, whichever went in: on two ranks
// the operands may have changed places, and which of two NaNs an addition returns depends on that.
void add(std::span<float> to, std::span<const float> from);

// to = from * factor.
void multiply(std::span<float> to, std::span<const float> from, float factor);

// Sum of squares, in the 16 double lanes of select.h.
[[nodiscard]] double energy(std::span<const float> values);

// A plain loop that ends at the first value that is not zero.
[[nodiscard]] inline bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

namespace scalar {
void add(std::span<float> to, std::span<const float> from);
void multiply(std::span<float> to, std::span<const float> from, float factor);
[[nodiscard]] double energy(std::span<const float> values);
}  // namespace scalar

}  // namespace pliant::kernels
