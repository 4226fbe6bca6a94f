// SPDX-License-Identifier: MIT
// Gather and scatter between a selection (ascending indices and their values) and a bucket. They
// wait for memory, not for arithmetic, so they are plain loops without a SIMD version.
//
// indices and values have the same length, indices are distinct and below the bucket's size (the
// decoder checks what came over the wire).
#pragma once

#include <cstdint>
#include <span>

namespace pliant::kernels {

// values[j] = residual[indices[j]], which becomes +0.
void gather_clear(std::span<float> residual, std::span<const std::uint32_t> indices,
                  std::span<float> values);

// dense[indices[j]] += values[j].
void scatter_add(std::span<float> dense, std::span<const std::uint32_t> indices,
                 std::span<const float> values);

// dense[indices[j]] = values[j]; everything else stays.
void scatter(std::span<float> dense, std::span<const std::uint32_t> indices,
             std::span<const float> values);

// The same, with zeros everywhere else.
void fill_from_sparse(std::span<float> dense, std::span<const std::uint32_t> indices,
                      std::span<const float> values);

}  // namespace pliant::kernels
