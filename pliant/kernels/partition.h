// SPDX-License-Identifier: MIT
// Loops of a trim over the entries of a selection. Same bits on every SIMD target;
// pliant::kernels::scalar has the plain twins. Magnitudes compare by bit pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pliant/kernels/select.h"

namespace pliant::kernels {

struct Bracket {
  std::size_t above = 0;   // values with a magnitude above `high`
  std::size_t inside = 0;  // values with one from `low` to `high`

  bool operator==(const Bracket&) const = default;
};

// Writes the magnitudes from `low` to `high` to `inside`, in order; there must be room for all of
// values.
Bracket bracket(std::span<const float> values, float low, float high, std::span<float> inside);

// Moves the entries whose magnitude is below the threshold to `below`, which has room for all; the
// others move together. Returns the number of the others. Both keep their order.
std::size_t split_below(std::span<std::uint32_t> indices, std::span<float> values, float threshold,
                        const Room& below);

namespace scalar {
Bracket bracket(std::span<const float> values, float low, float high, std::span<float> inside);
std::size_t split_below(std::span<std::uint32_t> indices, std::span<float> values, float threshold,
                        const Room& below);
}  // namespace scalar

}  // namespace pliant::kernels
