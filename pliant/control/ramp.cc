// SPDX-License-Identifier: MIT
#include "pliant/control/ramp.h"

#include <algorithm>

namespace pliant::control {
namespace {

using model::Prediction;
using plan::Plan;

constexpr double kDensityRounding = 1 + 1e-9;

}  // namespace

// Within `ramp_steps` of a rise, density may fall back to its previous value.
double Ramp::floor(const std::optional<Plan>& in_force, const Options& options,
                   std::int64_t step) const {
  if (!in_force) return options.ramp_start;
  const double now = in_force->density;
  const bool rested = sparser < 0 || step - sparser >= options.ramp_steps;
  const double floor = now > options.ramp_start ? options.ramp_start
                       : rested                 ? now / options.ramp_factor
                                                : now;
  const bool just_denser = denser >= 0 && step - denser < options.ramp_steps;
  return just_denser ? std::min(floor, before_denser) : floor;
}

bool Ramp::opened(const Plan& in_force, const Options& options, std::int64_t before,
                  std::int64_t step) const {
  return floor(in_force, options, step) < in_force.density &&
         floor(in_force, options, before) >= in_force.density;
}

Prediction Ramp::towards(const Prediction& goal, const std::optional<Plan>& in_force,
                         const Evaluation& evaluation, const Options& options,
                         std::int64_t step) const {
  const double lowest = floor(in_force, options, step);
  if (goal.plan.density * kDensityRounding >= lowest) return goal;
  const auto may = [&](const Plan& plan) {
    return plan.kind == goal.plan.kind && plan.density * kDensityRounding >= lowest;
  };
  const auto found = evaluation.best(may);
  if (!found) return goal;  // pinned below the floor
  if (!in_force || found->plan != *in_force) return *found;
  // The plan in force is the best one in reach, although the goal beats it. One rung down leads to
  // the goal, if that rung is not clearly worse.
  const auto down = evaluation.best(
      [&](const Plan& plan) { return may(plan) && plan.density < found->plan.density; });
  return down && down->speed() * options.better > found->speed() ? *down : *found;
}

void Ramp::note_switch(double from, double to, const Options& options, std::int64_t step) {
  if (to < from) sparser = step;
  if (to <= from) return;
  const bool again = denser >= 0 && step - denser < options.ramp_steps;
  before_denser = again ? std::min(before_denser, from) : from;
  denser = step;
}

}  // namespace pliant::control
