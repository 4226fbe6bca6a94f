// SPDX-License-Identifier: MIT
#include "pliant/compress/residual.h"

#include <algorithm>
#include <limits>

#include "pliant/common/errors.h"
#include "pliant/kernels/sparse.h"

namespace pliant::compress {

Residual::Residual(std::size_t entries) : entries_(entries) {
  std::ranges::fill(entries_.span(), 0.0F);
}

void take_out(std::span<float> residual, std::span<const std::uint32_t> indices,
              std::span<float> values) {
  require(indices.size() == values.size(), "{} indices with {} values", indices.size(),
          values.size());
  kernels::gather_clear(residual, indices, values);
}

void put_back(std::span<float> residual, const Selection& selection) {
  put_back(residual, selection.indices(), selection.values());
}

void put_back(std::span<float> residual, std::span<const std::uint32_t> indices,
              std::span<const float> values) {
  require(indices.size() == values.size(), "{} indices with {} values", indices.size(),
          values.size());
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (std::size_t j = 0; j < indices.size(); ++j) {
    float& place = residual[indices[j]];
    place = place == 0 ? values[j] : std::clamp(place + values[j], -kLargest, kLargest);
  }
}

}  // namespace pliant::compress
