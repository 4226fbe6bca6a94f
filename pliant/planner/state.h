// SPDX-License-Identifier: MIT
// State of a Planner: all that it has learnt while training runs. A checkpoint carries its text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pliant/control/state.h"
#include "pliant/observe/coding.h"
#include "pliant/observe/compute.h"
#include "pliant/observe/network.h"
#include "pliant/observe/readiness.h"
#include "pliant/observe/selections.h"
#include "pliant/observe/step_times.h"
#include "pliant/plan/costs.h"

namespace pliant::planner {

struct State {
  State(int ranks, const plan::CostTable& table) : costs(table), network(ranks) {}

  plan::CostTable costs;   // of coding, on the slowest rank
  std::int64_t steps = 0;  // training steps so far: a round of updates has `every` of them
  observe::Compute compute;
  observe::Coding coding;
  observe::Readiness readiness;
  observe::Overlap overlap;
  observe::Gain gain;
  observe::Network network;
  observe::StepTimes step_times;  // a checkpoint does not carry them
  control::State control;
};

// Lines of "key value". restore() keeps the units of `readiness`; it throws InputError that names
// the wrong line.
[[nodiscard]] std::string to_text(const State& state);
void restore(State& state, std::string_view text);

}  // namespace pliant::planner
