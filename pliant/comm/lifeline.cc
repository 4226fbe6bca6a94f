// SPDX-License-Identifier: MIT
#include "pliant/comm/lifeline.h"

#include <fmt/format.h>

namespace pliant::comm {

void Lifeline::check() const {
  if (!first_) return;
  Failure again = *first_;
  again.reason = "this communicator is dead; what ended it: " + again.reason;
  throw CommError(again);
}

void Lifeline::fail(const Failure& failure) {
  if (!first_) first_ = failure;
  throw CommError(failure);
}

Failure deadline_passed(Failure message, Seconds waited, Seconds deadline, Seconds silent_for) {
  message.reason =
      fmt::format("{} for {} (deadline {})", message.receiving ? "no data" : "not taken",
                  to_string(waited), to_string(deadline));
  message.advice = fmt::format(
      "The peer may be gone or its link down. Last heard from it {} ago. Raise it with "
      "deadline=..., or see docs/errors.md.",
      to_string(silent_for));
  return message;
}

}  // namespace pliant::comm
