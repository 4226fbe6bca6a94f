// SPDX-License-Identifier: MIT
#include "python/native/completion.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "python/native/errors.h"

namespace pliant::native {
namespace {

std::atomic<int> completions{0};

at::Tensor if_on_device(const at::Tensor& tensor) {
  return tensor.device().is_cpu() ? at::Tensor() : tensor;
}

std::vector<c10::Device> devices_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.device()};
}

}  // namespace

Completion::Counted::Counted() { ++completions; }
Completion::Counted::~Counted() { --completions; }

Completion::Completion(const pybind11::object& tensor)
    : value_(torch::jit::toIValue(tensor, c10::PyObjectType::get())),
      device_tensor_(if_on_device(pybind11::cast<at::Tensor>(tensor))),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::PyObjectType::get(),
                                                       devices_of(device_tensor_))) {}

std::shared_ptr<torch::jit::PythonFutureWrapper> Completion::future() const {
  return std::make_shared<torch::jit::PythonFutureWrapper>(future_);
}

void Completion::succeed() {
  if (!device_tensor_.defined()) return future_->markCompleted(std::move(value_));
  future_->markCompleted(std::move(value_),
                         std::vector{device_tensor_.storage().getWeakStorageImpl()});
}

void Completion::fail(const std::exception_ptr& why) {
  if (interpreter_is_ending()) return;  // nobody is left to wait
  std::exception_ptr error;
  {
    const pybind11::gil_scoped_acquire gil;
    error = as_python_error(why);
  }
  future_->setError(std::move(error));
}

std::shared_ptr<torch::jit::PythonFutureWrapper> completed_with(
    const std::shared_ptr<torch::jit::PythonFutureWrapper>& work, const pybind11::object& value) {
  const auto completion = std::make_shared<Completion>(value);
  const pybind11::gil_scoped_release no_gil;
  work->fut->addCallback([completion](c10::ivalue::Future& done) {
    if (done.hasError()) {
      completion->fail(done.exception_ptr());
    } else {
      completion->succeed();
    }
  });
  return completion->future();
}

void wait_for_completions() {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + 5s;
  while (completions > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(1ms);
}

}  // namespace pliant::native
