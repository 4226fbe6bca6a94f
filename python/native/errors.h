// SPDX-License-Identifier: MIT
// Translation of Pliant's exceptions to Python: each kind of failure is the class of that name in
// pliant.errors, with the same text.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <memory>

namespace pliant::native {

// Translates exceptions of bound functions to those of pliant.errors; InputError becomes
// ValueError.
void register_errors();

// The same for an exception that is not thrown here: a pybind11::error_already_set. With the GIL.
[[nodiscard]] std::exception_ptr as_python_error(const std::exception_ptr& why);

// No thread may take the GIL any more.
[[nodiscard]] bool interpreter_is_ending();

// An object that any thread may drop. With the GIL.
[[nodiscard]] std::shared_ptr<pybind11::object> kept(pybind11::object object);

}  // namespace pliant::native
