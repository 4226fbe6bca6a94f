// SPDX-License-Identifier: MIT
// What one line to the control socket does, and what is answered. docs/formats/lab-control.md
// describes both.
#pragma once

#include <string>

#include "tools/pliant-lab/switch/emulation.h"

namespace pliant::lab {

// "set 2 1mbit,300ms", "set all ...", "down 2", "up 2", "phase NAME", "status". The answer is one
// line: "ok", "error: why", or for status a JSON object. Never throws for what a person typed.
[[nodiscard]] std::string execute(Emulation& emulation, const std::string& line, Time now);

}  // namespace pliant::lab
