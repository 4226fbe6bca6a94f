// SPDX-License-Identifier: MIT
// Lifeline of a communicator: keeps its first failure, and throws it again in every later call.
// Each backend holds one.
#pragma once

#include <optional>
#include <string>

#include "pliant/comm/errors.h"

namespace pliant::comm {

class Lifeline {
 public:
  // Throws CommError that carries the first failure, if there was one.
  void check() const;
  [[nodiscard]] bool dead() const { return first_.has_value(); }

  // Dies of this failure and throws it.
  [[noreturn]] void fail(const Failure& failure);

 private:
  std::optional<Failure> first_;
};

// The failure of a wait that lasted too long.
[[nodiscard]] Failure deadline_passed(Failure message, Seconds waited, Seconds deadline,
                                      Seconds silent_for);

}  // namespace pliant::comm
