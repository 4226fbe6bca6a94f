// SPDX-License-Identifier: MIT
#include "pliant/comm/errors.h"

#include <fmt/format.h>

namespace pliant::comm {
namespace {

std::string describe(const Failure& f) {
  const std::string name = f.name.empty() ? "" : fmt::format(" ({})", f.name);
  const std::string what =
      f.peer < 0 ? fmt::format("all-reducing {}", to_string(f.bytes))
                 : fmt::format("{} {} {} rank {}{}", f.receiving ? "receiving" : "sending",
                               to_string(f.bytes), f.receiving ? "from" : "to", f.peer, name);
  std::string text = fmt::format("rank {}: {}", f.rank, what);
  if (f.place.rounds > 0)
    text += fmt::format(", round {} of {}, plan version {}", f.place.round, f.place.rounds,
                        f.place.plan_version);
  text += ": " + f.reason;
  if (f.culprit)
    text += fmt::format("\n  All waits lead to rank {}, which reported nothing: check it first.",
                        *f.culprit);
  if (!f.advice.empty()) text += "\n  " + f.advice;
  return text;
}

}  // namespace

CommError::CommError(Failure failure)
    : std::runtime_error(describe(failure)), failure_(std::move(failure)) {}

}  // namespace pliant::comm
