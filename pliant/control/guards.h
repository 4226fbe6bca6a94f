// SPDX-License-Identifier: MIT
// Guard-rails: limits that no policy goes beyond, unless the user pinned that part of the plan.
#pragma once

#include "pliant/plan/plan.h"

namespace pliant::control {

// At a lower density the residual becomes stale: training diverged or lost accuracy in trials.
struct Guards {
  double least_density_updates = 0.001;
  // Also for star, whose leader knows one rank's entries only, and for every >= sparse_every.
  double least_density_gradients = 0.003;
  int sparse_every = 4;
  int most_every = 8;
  int most_late = 4;
  int most_late_adam = 1;
  bool operator==(const Guards&) const = default;
};

// Whether the guard-rails allow this plan. A pinned part is always allowed.
[[nodiscard]] bool allowed(const plan::Plan& plan, const plan::Pins& pins, const Guards& guards,
                           bool adam);

}  // namespace pliant::control
