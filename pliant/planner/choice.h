// SPDX-License-Identifier: MIT
// Inputs and outputs of a Planner.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "pliant/control/decision.h"
#include "pliant/plan/link.h"
#include "pliant/plan/plan.h"

namespace pliant::planner {

// The plan of one round.
struct Choice {
  plan::Plan plan;
  std::string reason;      // one sentence
  Seconds predicted = {};  // exchange time; 0 if nothing was predicted
  control::Origin origin = {};
  std::shared_ptr<const control::Decision> decision = nullptr;  // null if the plan is pinned
};

// Outcome of one round's exchanges, the same on all ranks.
struct Result {
  double updated_fraction = 1;
  double gain = 1;  // of the average over ranks
};

// Expectations for one step under a plan. A field is nullopt if too little is known.
struct Outlook {
  std::optional<plan::Link> link = {};     // as measured so far
  std::optional<Seconds> wire = {};        // all exchanges of a step that exchanges
  std::optional<Seconds> dense_step = {};  // a whole step of plain dense gradients
};

}  // namespace pliant::planner
