// SPDX-License-Identifier: MIT
// Short sentences about changes of the plan, for people:
// "network slower (40 Mbit/s): top 10 % instead of 20 %". Every place that tells people about a
// decision uses them. Decision::reason is the long form, with whole plans and predictions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pliant/plan/link.h"
#include "pliant/plan/plan.h"

namespace pliant::control {

enum class Cause : std::uint8_t {
  kNothing,      // the plan stays
  kFirst,        // there was no plan before
  kPinned,       // by the user
  kWarmUp,       // the plan belongs to the warm-up
  kWarmUpOver,   //
  kNetwork,      // the network changed
  kFaster,       // the plan is predicted to be faster
  kTrial,        // for one exchange
  kTrialOver,    // the plan before the trial is back
  kCheck,        // plain DDP is timed for some steps
  kCheckOver,    // the plan before the check is back: it was faster
  kPlainFaster,  // than the plan in force, by what both were seen to take
  kNewKind,      // the full exchange between two kinds is done
};

// How a plan was chosen.
struct Origin {
  Cause cause = Cause::kNothing;
  std::optional<plan::Link> link = {};  // as measured at that moment
  double speed_up = 1;  // predicted progress per second / that of the plan before it
  std::optional<plan::Plan> goal = {};  // the plan that this one leads to
};

struct Change {
  std::optional<plan::Plan> before = {};       // nullopt: none yet
  std::optional<plan::Link> link_before = {};  // when `before` was chosen
  plan::Plan after = {};
  Origin origin = {};
  // A full exchange comes first, because `after` is of the other kind.
  bool after_full_exchange = false;
};

[[nodiscard]] std::string sentence(const Change& change);

}  // namespace pliant::control
