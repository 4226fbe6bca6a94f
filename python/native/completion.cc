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

}  // namespace

Completion::Counted::Counted() { ++completions; }
Completion::Counted::~Counted() { --completions; }

Completion::Completion(const pybind11::object& value, pybind11::object land)
    : value_(torch::jit::toIValue(value, c10::PyObjectType::get())),
      land_(land.is_none() ? nullptr : kept(std::move(land))),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::PyObjectType::get())) {}

std::shared_ptr<torch::jit::PythonFutureWrapper> Completion::future() const {
  return std::make_shared<torch::jit::PythonFutureWrapper>(future_);
}

void Completion::succeed() {
  if (land_ != nullptr) {
    if (interpreter_is_ending()) return;  // nobody is left to wait
    if (std::exception_ptr error = run_landing()) return future_->setError(std::move(error));
  }
  future_->markCompleted(std::move(value_));
}

// future.then() would do, but makes a RuntimeError of every failure.
std::exception_ptr Completion::run_landing() {
  const pybind11::gil_scoped_acquire gil;
  try {
    (*land_)();
  } catch (pybind11::error_already_set&) {
    return std::current_exception();
  }
  return nullptr;
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
  const auto completion = std::make_shared<Completion>(value, pybind11::none());
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
