// SPDX-License-Identifier: MIT
// The first thing that went wrong on any thread of an engine. Afterwards nothing is exchanged any
// more.
#pragma once

#include <exception>
#include <mutex>

namespace pliant::engine {

class Fault {
 public:
  void note(std::exception_ptr what) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::move(what);
  }
  [[nodiscard]] std::exception_ptr first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }
  void check() const {
    if (const auto what = first()) std::rethrow_exception(what);
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace pliant::engine
