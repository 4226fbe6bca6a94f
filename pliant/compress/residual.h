// SPDX-License-Identifier: MIT
// What a rank has not sent yet, one float for each of its entries. Whoever drops or rounds a number
// adds it here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pliant/common/buffer.h"
#include "pliant/compress/selection.h"

namespace pliant::compress {

class Residual {
 public:
  explicit Residual(std::size_t entries);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::span<float> span() const { return entries_.span(); }
  [[nodiscard]] std::span<float> span(std::size_t first, std::size_t count) const {
    return entries_.span().subspan(first, count);
  }

 private:
  Buffer<float> entries_;
};

// values[j] = what residual has at indices[j], and has no longer: what a rank that follows a
// leader's indices sends.
void take_out(std::span<float> residual, std::span<const std::uint32_t> indices,
              std::span<float> values);

// Undoes a selection: every place gets back exactly what was taken from it, bit for bit where
// nothing has been added since (the place is zero), and by addition where something has. A sum that
// would overflow stays at the largest finite number.
void put_back(std::span<float> residual, const Selection& selection);

// The same for any entries: rounding errors, an owner's trims.
void put_back(std::span<float> residual, std::span<const std::uint32_t> indices,
              std::span<const float> values);

}  // namespace pliant::compress
