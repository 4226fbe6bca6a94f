// SPDX-License-Identifier: MIT
// Commands of the control socket: one line in, one answer out (docs/formats/lab-control.md).
#pragma once

#include <string>

#include "tools/pliant-lab/switch/emulation.h"

namespace pliant::lab {

// "set 2 1mbit,300ms", "set all ...", "down 2", "up 2", "phase NAME", "status". The answer is one
// line: "ok", "error: why", or for status a JSON object. Never throws for what a person typed.
[[nodiscard]] std::string execute(Emulation& emulation, const std::string& line, Time now);

}  // namespace pliant::lab
