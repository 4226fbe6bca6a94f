// SPDX-License-Identifier: MIT
// Inputs of one decision: everything that is known about network and training. All ranks must have
// the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "pliant/model/predict.h"

namespace pliant::control {

// Steps under the plan in force, as the slowest rank saw them.
struct SeenSteps {
  std::optional<plan::Plan> plan = {};
  Seconds step = {};  // the median
  int rounds = 0;
};

struct Inputs {
  std::int64_t step = 0;     // training step from which on the plan will be in force
  model::Inputs model = {};  // for predictions
  bool changed = false;      // the network changed since the last decision
  double noise = 0;          // of one timing: usual size of log(seen / predicted)
  // Step of the last timing of each correction; -1 = never.
  std::array<std::int64_t, plan::kCorrections> last_seen = never_seen();
  std::optional<SeenSteps> seen = {};
  bool front = false;  // Decision::front is wanted of every evaluation; changes nothing else

  static constexpr std::array<std::int64_t, plan::kCorrections> never_seen() {
    std::array<std::int64_t, plan::kCorrections> never{};
    never.fill(-1);
    return never;
  }
};

}  // namespace pliant::control
