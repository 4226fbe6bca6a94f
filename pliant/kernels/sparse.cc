// SPDX-License-Identifier: MIT
#include "pliant/kernels/sparse.h"

#include <algorithm>
#include <cstddef>

namespace pliant::kernels {

void gather_clear(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<float> values) {
  for (std::size_t j = 0; j < indices.size(); ++j) {
    values[j] = residual[indices[j]];
    residual[indices[j]] = 0;
  }
}

void scatter_add(std::span<float> dense, std::span<const std::uint32_t> indices, std::span<const float> values) {
  for (std::size_t j = 0; j < indices.size(); ++j) dense[indices[j]] += values[j];
}

void scatter(std::span<float> dense, std::span<const std::uint32_t> indices, std::span<const float> values) {
  for (std::size_t j = 0; j < indices.size(); ++j) dense[indices[j]] = values[j];
}

void fill_from_sparse(std::span<float> dense, std::span<const std::uint32_t> indices, std::span<const float> values) {
  std::fill(dense.begin(), dense.end(), 0.0F);
  scatter(dense, indices, values);
}

}  // namespace pliant::kernels
