// SPDX-License-Identifier: MIT
// Trim: reduces a selection to its k largest entries, by the total order: magnitude's bit pattern
// first, lower index before higher among equals. The time is linear in the selection's size,
// whatever its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pliant/compress/selection.h"

namespace pliant::compress {

// Entries above `magnitude_bits` are among the `keep` largest, and the first `equals` of those that
// have exactly it.
struct Cut {
  std::uint32_t magnitude_bits = 0;
  std::size_t equals = 0;
};

// 1 <= keep <= values.size().
[[nodiscard]] Cut find_cut(std::span<const float> values, std::size_t keep);

// Reduces the selection to its `keep` largest, 1 <= keep <= size; the losers return to the
// residual, where their places are zero since they were taken out.
Cut trim(Selection& selection, std::size_t keep, std::span<float> residual);

}  // namespace pliant::compress
