// SPDX-License-Identifier: MIT
// Sums of squares over a sample of blocks, for figures that must take microseconds for models of
// any size.
#pragma once

#include <cstddef>
#include <span>

namespace pliant::kernels {

inline constexpr std::size_t kSampleBlock = 256;  // entries that are read together

// The stride at which blocks are sampled: about 16,384 entries of a whole model, which is all of a
// small one.
[[nodiscard]] std::size_t sample_stride(std::size_t model_entries);

// Every `stride`-th block of 256 entries.
[[nodiscard]] double sampled_energy(std::span<const float> values, std::size_t stride);
// The same of the differences values - minus.
[[nodiscard]] double sampled_energy(std::span<const float> values, std::span<const float> minus,
                                    std::size_t stride);

}  // namespace pliant::kernels
