// SPDX-License-Identifier: MIT
// Exit codes of the command-line tools, the same in every tool.
#pragma once

namespace pliant {

enum ExitCode : int {
  kExitFine = 0,
  kExitFailed = 1,
  kExitBadInput = 2,
  kExitDisagree = 3,
  kExitPeerLost = 4,
  kExitWrongResult = 5,
  kExitMissing = 6,
  kExitTimeout = 124,
  kExitSignalBase = 128,  // ended by signal n: 128 + n
};

}  // namespace pliant
