// SPDX-License-Identifier: MIT
// Layout of a parameter's entries in its flat gradient. DDP gives a gradient the layout of its
// parameter if that is dense and without overlap, else row by row. Residuals and samples have the
// same layout.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace pliant::native {

[[nodiscard]] std::vector<std::int64_t> layout(const at::Tensor& parameter);

// The entry of `tensor` (of the parameter's shape, strided in any way) that has place `at` in the
// flat gradient.
[[nodiscard]] float entry(const at::Tensor& tensor, std::span<const std::int64_t> layout,
                          std::int64_t at);

}  // namespace pliant::native
