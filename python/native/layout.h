// SPDX-License-Identifier: MIT
// Where an entry of a parameter lies in its flat gradient. DDP lays a gradient out as the parameter
// is if that is dense and without overlap, else row by row; residuals and samples follow it.
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
