// SPDX-License-Identifier: MIT
// Sums of contributions that travel whole, for those who move them and may not see kernels/.
#pragma once

#include <span>

#include "pliant/kernels/dense.h"

namespace pliant::compress {

// to += from, with one NaN for all (kernels/dense.h).
inline void add(std::span<float> to, std::span<const float> from) { kernels::add(to, from); }

// to = from * factor.
inline void multiply(std::span<float> to, std::span<const float> from, float factor) {
  kernels::multiply(to, from, factor);
}

}  // namespace pliant::compress
