// SPDX-License-Identifier: MIT
// State of the engine for Python: vectors of floats as flat tensors, both ways.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace pliant::native {

[[nodiscard]] std::vector<at::Tensor> tensors_of(const std::vector<std::vector<float>>& vectors);

void bind_state(pybind11::module_& module);

}  // namespace pliant::native
