// SPDX-License-Identifier: MIT
// Python classes for the engine's options: `Options(plan="auto", check_every=100)` sets each
// keyword as an attribute. A value that the engine refuses is a ValueError.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace pliant::native {

void bind_options(pybind11::module_& module);

}  // namespace pliant::native
