// SPDX-License-Identifier: MIT
// The future that a communication hook returns, completed by a lane. Its value is made in advance,
// so that success needs no GIL (unless a callback must run first). A failure takes the GIL to
// become a Python exception.
#pragma once

#include <torch/csrc/jit/python/pybind_utils.h>

#include <exception>
#include <memory>

namespace pliant::native {

class Completion {
 public:
  // land: None, or a function to call before the future succeeds. Needs the GIL.
  Completion(const pybind11::object& value, pybind11::object land);

  [[nodiscard]] std::shared_ptr<torch::jit::PythonFutureWrapper> future() const;

  // Either, once, from any thread, without the GIL.
  void succeed();
  void fail(const std::exception_ptr& why);

 private:
  [[nodiscard]] std::exception_ptr run_landing();

  c10::IValue value_;
  std::shared_ptr<pybind11::object> land_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace pliant::native
