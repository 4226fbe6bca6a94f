// SPDX-License-Identifier: MIT
#include "pliant/control/guards.h"

namespace pliant::control {

bool allowed(const plan::Plan& plan, const plan::Pins& pins, const Guards& guards, bool adam) {
  const bool updates = plan.kind == plan::Kind::kUpdates;
  const bool star = plan.scheme == plan::Scheme::kShared && plan.leader == plan::Leader::kStar;
  const bool careful = !updates || star || plan.every >= guards.sparse_every;
  if (!pins.density &&
      plan.density < (careful ? guards.least_density_gradients : guards.least_density_updates))
    return false;
  if (!pins.every && plan.every > guards.most_every) return false;
  return pins.late || plan.late <= (adam ? guards.most_late_adam : guards.most_late);
}

}  // namespace pliant::control
