// SPDX-License-Identifier: MIT
// The future that a communication hook returns, completed by another thread. Its value is made in
// advance, so that success needs no GIL (unless a callback must run first). A failure takes the GIL
// to become a Python exception.
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
  // Counts the completions that exist. The first member, so that it outlives what needs the GIL.
  struct Counted {
    Counted();
    ~Counted();
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
  };
  [[nodiscard]] std::exception_ptr run_landing();

  Counted counted_;
  c10::IValue value_;
  std::shared_ptr<pybind11::object> land_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// A future whose value is `value`, completed when `work` is; `work` is of a backend in host memory.
// With the GIL.
[[nodiscard]] std::shared_ptr<torch::jit::PythonFutureWrapper> completed_with(
    const std::shared_ptr<torch::jit::PythonFutureWrapper>& work, const pybind11::object& value);

// Before the interpreter ends: waits, for a few seconds at most, until no other thread has anything
// left to complete. A thread that needs the GIL later would end the process. Without the GIL.
void wait_for_completions();

}  // namespace pliant::native
