// SPDX-License-Identifier: MIT
// First exception of a group of threads. Threads check it before they continue, so that one failure
// stops all of them and all report the same cause.
#pragma once

#include <exception>
#include <mutex>

namespace pliant {

class FirstFailure {
 public:
  void note(std::exception_ptr what) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::move(what);
  }
  [[nodiscard]] std::exception_ptr get() const {  // null if nothing has failed
    const std::lock_guard lock(mutex_);
    return first_;
  }
  // Throws the failure if there is one.
  void check() const {
    if (const auto what = get()) std::rethrow_exception(what);
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace pliant
