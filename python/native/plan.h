// SPDX-License-Identifier: MIT
// Python classes for plans as values: Plan (every part decided) and Pins (any part left open).
// Their attributes are the parts of docs/plans.md, words as text; str() is the canonical line.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace pliant::native {

void bind_plan(pybind11::module_& module);

}  // namespace pliant::native
