// SPDX-License-Identifier: MIT
// The future that a communication hook returns, completed by another thread. Its value is made in
// advance, so that success needs no GIL. A failure takes the GIL to become a Python exception.
//
// For a tensor on a device the future knows what its value waits for: the work of the stream that
// is current where it is completed. Whoever waits for the future makes its own stream wait for it.
#pragma once

#include <torch/csrc/jit/python/pybind_utils.h>

#include <exception>
#include <memory>

namespace pliant::native {

class Completion {
 public:
  // Needs the GIL.
  explicit Completion(const pybind11::object& tensor);

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

  Counted counted_;
  c10::IValue value_;
  at::Tensor device_tensor_;  // undefined for host memory
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
