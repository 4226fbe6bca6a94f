// SPDX-License-Identifier: MIT
#include "pliant/kernels/sparse.h"

#include <algorithm>
#include <cstddef>

namespace pliant::kernels {
namespace {

// Entries are far apart: each is a line, often a page, of its own. Asking for it this many entries
// ahead covers the time memory takes with what the loop does meanwhile.
constexpr std::size_t kAhead = 32;

template <typename Visit>
void for_each(std::span<float> dense, std::span<const std::uint32_t> indices, Visit visit) {
  const std::size_t asked = indices.size() - std::min(kAhead, indices.size());
  std::size_t j = 0;
  for (; j < asked; ++j) {
    __builtin_prefetch(&dense[indices[j + kAhead]], 1, 3);
    visit(dense[indices[j]], j);
  }
  for (; j < indices.size(); ++j) visit(dense[indices[j]], j);
}

}  // namespace

void gather_clear(std::span<float> residual, std::span<const std::uint32_t> indices,
                  std::span<float> values) {
  for_each(residual, indices, [values](float& place, std::size_t j) {
    values[j] = place;
    place = 0;
  });
}

void scatter_add(std::span<float> dense, std::span<const std::uint32_t> indices,
                 std::span<const float> values) {
  for_each(dense, indices, [values](float& place, std::size_t j) { place += values[j]; });
}

void scatter(std::span<float> dense, std::span<const std::uint32_t> indices,
             std::span<const float> values) {
  for_each(dense, indices, [values](float& place, std::size_t j) { place = values[j]; });
}

void fill_from_sparse(std::span<float> dense, std::span<const std::uint32_t> indices,
                      std::span<const float> values) {
  std::fill(dense.begin(), dense.end(), 0.0F);
  scatter(dense, indices, values);
}

}  // namespace pliant::kernels
