// SPDX-License-Identifier: MIT
#include "pliant/compress/residual.h"

#include <algorithm>
#include <limits>

#include "pliant/common/errors.h"
#include "pliant/kernels/sparse.h"

namespace pliant::compress {
namespace {

float returned(float place, float value) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  return place == 0 ? value : std::clamp(place + value, -kLargest, kLargest);
}

}  // namespace

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

void put_back(std::span<float> residual, std::span<const float> values) {
  require(residual.size() == values.size(), "a residual of {} entries with {} values",
          residual.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) residual[i] = returned(residual[i], values[i]);
}

void put_back(std::span<float> residual, std::span<const std::uint32_t> indices,
              std::span<const float> values) {
  require(indices.size() == values.size(), "{} indices with {} values", indices.size(),
          values.size());
  // Entries lie far apart: each is a line of memory of its own, and waiting for it is all the time
  // that this takes.
  constexpr std::size_t kAhead = 24;
  for (std::size_t j = 0; j < indices.size(); ++j) {
    if (j + kAhead < indices.size()) __builtin_prefetch(&residual[indices[j + kAhead]], 1);
    float& place = residual[indices[j]];
    place = returned(place, values[j]);
  }
}

}  // namespace pliant::compress
