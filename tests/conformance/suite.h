// SPDX-License-Identifier: MIT
// What every Communicator must do, as functions that every rank of a group calls together. They
// throw on a violation and know no test framework, so that a backend can run them wherever it
// lives.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "pliant/comm/communicator.h"

namespace pliant::conformance {

struct Case {
  std::string_view name;
  std::function<void(comm::Communicator&)> run;
  bool fatal = false;          // leaves the communicator dead: give each such case a fresh one
  bool needs_lengths = false;  // skip it, visibly, on a backend that does not tell lengths
};

[[nodiscard]] const std::vector<Case>& cases();

// Throws unless the backend's own all-reduce, if it has one, fails by the deadline when rank `gone`
// is no longer there.
void an_all_reduce_without_a_peer_is_an_error(comm::Communicator& communicator);

// Throws unless, with rank `gone` no longer there, both sending to and receiving from it fail by
// the deadline, and the communicator is dead afterwards. Called by the survivors.
void a_peer_that_is_gone_is_an_error(comm::Communicator& communicator, int gone);

}  // namespace pliant::conformance
