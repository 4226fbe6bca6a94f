// SPDX-License-Identifier: MIT
// Table of the numbers that steer decisions, by name. Ranks compare all of them before they begin.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/engine/options.h"

namespace pliant::engine {

struct Dial {
  static constexpr double kNoLimit = std::numeric_limits<double>::max();
  enum class For {
    kUsers,
    kExperts
  };  // kExperts: accepted by name, but neither shown nor suggested

  std::string name;
  std::string sentence;  // for people, one line
  For who = For::kUsers;
  double least = 0;
  double most = kNoLimit;
  bool whole = false;  // only whole numbers
  std::function<void(Options&, double)> set;
  std::function<std::string(const Options&)> value;  // as text that ranks compare

  [[nodiscard]] std::string range() const;  // "0 to 1", "1 or more"
};

// All of them; those for users come first.
[[nodiscard]] const std::vector<Dial>& dials();

// The names of those for users.
[[nodiscard]] std::vector<std::string> dial_names();

// ContractError if there is none of that name.
[[nodiscard]] const Dial& dial(std::string_view name);

// Throws InputError that names the dial, with the nearest known name or the allowed range.
void turn_dial(Options& options, std::string_view name, double value);

// "auto", "knee" or "fixed"; InputError otherwise.
[[nodiscard]] control::Policy parse_policy(std::string_view text);
[[nodiscard]] control::Goal parse_goal(std::string_view text);

}  // namespace pliant::engine
