// SPDX-License-Identifier: MIT
// Residual: the part of all contributions that a rank has not sent yet, one float for each entry. A
// rank that drops or rounds a number adds the difference to its residual.
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

// Moves residual[indices[j]] to values[j] and leaves zero there: the values that a rank sends which
// follows a leader's indices.
void take_out(std::span<float> residual, std::span<const std::uint32_t> indices,
              std::span<float> values);

// Undoes a selection: every place gets back exactly what was taken from it, bit for bit where
// nothing has been added since (the place is zero), and by addition where something has. A sum that
// would overflow stays at the largest finite number.
void put_back(std::span<float> residual, const Selection& selection);

// The same for the whole span: values[i] goes back to residual[i].
void put_back(std::span<float> residual, std::span<const float> values);

// The same for any entries: rounding errors, an owner's trims.
void put_back(std::span<float> residual, std::span<const std::uint32_t> indices,
              std::span<const float> values);

}  // namespace pliant::compress
