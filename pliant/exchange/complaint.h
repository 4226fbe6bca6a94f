// SPDX-License-Identifier: MIT
// Complaint: the first error found in received payloads. A rank that refuses a payload still runs
// the schedule to its end, so that no rank waits for it; then it throws.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "pliant/compress/payload.h"

namespace pliant::exchange {

// Another rank refused a payload, and marked its own payloads.
class RefusedByPeer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Complaint {
 public:
  // Runs `work` and keeps the exception if it throws one. Returns whether all is well.
  template <typename Work>
  bool attempt(Work&& work) {
    try {
      std::forward<Work>(work)();
      return true;
    } catch (const RefusedByPeer&) {  // prefer the original error to a report of it
      if (!first_) first_ = std::current_exception();
    } catch (...) {
      if (!first_ || echo_) first_ = std::current_exception();
      echo_ = false;
      return false;
    }
    echo_ = true;
    return false;
  }

  void refuse(const std::string& why) {
    attempt([&why] { throw compress::PayloadMismatch("size", why); });
  }

  [[nodiscard]] bool any() const { return first_ != nullptr; }
  void raise() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
  bool echo_ = false;
};

}  // namespace pliant::exchange
