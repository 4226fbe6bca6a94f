// SPDX-License-Identifier: MIT
// PinnedPlan: the single plan that complete pins describe, and its warm-up. Nothing is chosen.
#pragma once

#include <cstdint>
#include <string>

#include "pliant/control/change.h"
#include "pliant/control/options.h"

namespace pliant::control {

// Whether the pins leave nothing to choose that matters: kind, scheme and density are there.
[[nodiscard]] bool is_complete(const plan::Pins& pins);

class PinnedPlan {
 public:
  // Parts that are not pinned take their usual values.
  PinnedPlan(const plan::Pins& pins, WarmUp warm_up, std::int64_t warm_up_steps);

  struct Now {
    plan::Plan plan;
    std::string reason;  // one sentence
    Cause cause;         // pinned, or warm-up
  };
  [[nodiscard]] Now at(std::uint64_t round) const;
  [[nodiscard]] const plan::Plan& plan() const { return plan_; }  // after the warm-up

 private:
  plan::Plan plan_;
  std::string reason_;
  WarmUp warm_up_;
  std::int64_t warm_up_steps_;
};

}  // namespace pliant::control
