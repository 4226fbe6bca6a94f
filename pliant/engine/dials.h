// SPDX-License-Identifier: MIT
// The numbers that steer decisions, by name: what a user may turn without a line of C++.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pliant/engine/options.h"

namespace pliant::engine {

// "p" turns both exponents. Throws InputError that names the dial, with the nearest known name or
// the range it must be in.
void turn_dial(Options& options, std::string_view name, double value);

[[nodiscard]] std::vector<std::string> dial_names();

// "auto", "knee" or "fixed"; InputError otherwise.
[[nodiscard]] control::Policy parse_policy(std::string_view text);

}  // namespace pliant::engine
