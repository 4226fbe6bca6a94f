// SPDX-License-Identifier: MIT
// The decision about the next plan. decide() is called once for every round whose records are in.
// Mostly no input has moved, and the plan stays. Otherwise all candidates are predicted, the policy
// picks its goal, and the plan in force moves towards it as far as warm-up, ramp and hysteresis
// allow. No clock, no I/O: ranks that call it with the same bits get the same bits.
#pragma once

#include "pliant/control/decision.h"
#include "pliant/control/inputs.h"
#include "pliant/control/options.h"
#include "pliant/control/state.h"

namespace pliant::control {

// Makes `decision.choice` the plan in force. If predictions fail (ContractError of the model) the
// plan in force stays and the reason says why; without one, the plainest plan that the pins allow.
// Policies are auto and knee; `fixed` chooses nothing (PinnedPlan).
[[nodiscard]] Decision decide(const Inputs& inputs, const Options& options, State& state,
                              model::PriceBook& book);

}  // namespace pliant::control
