// SPDX-License-Identifier: MIT
// State that one decision leaves for the next. Start with State{}; a checkpoint carries its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pliant/control/hysteresis.h"
#include "pliant/control/last_evaluation.h"
#include "pliant/control/plain_check.h"
#include "pliant/control/ramp.h"
#include "pliant/control/trials.h"

namespace pliant::control {

struct State {
  std::uint32_t epoch = 0;  // counts decisions, changed or not
  std::optional<plan::Plan> in_force = {};
  std::optional<plan::Plan> goal = {};  // the policy's choice once warm-up and ramp are over
  Ramp ramp = {};
  Hysteresis hysteresis = {};
  Trials trials = {};
  PlainCheck plain_check = {};
  LastEvaluation last = {};
  bool operator==(const State&) const = default;
};

// Lines of "key value". parse_state throws InputError that names the wrong line.
[[nodiscard]] std::string to_text(const State& state);
[[nodiscard]] State parse_state(std::string_view text);

}  // namespace pliant::control
