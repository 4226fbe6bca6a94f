// SPDX-License-Identifier: MIT
#include "pliant/control/trials.h"

#include <algorithm>

#include "pliant/control/warm_up.h"

namespace pliant::control {
namespace {

using model::Prediction;
using plan::Plan;

bool same_rhythm(const Plan& a, const Plan& b) {
  return a.kind == b.kind && a.every == b.every && a.late == b.late && a.fuse == b.fuse;
}

}  // namespace

bool Trials::due(const Options& options, const Inputs& inputs) const {
  return inputs.noise < kMostNoise && !warming_up(options, inputs.step) &&
         inputs.step >= std::max(next_trial, options.stale_steps);
}

std::optional<Trials::Trial> Trials::pick(const Plan& in_force, const Prediction& goal,
                                          const Evaluation& evaluation, const Inputs& inputs,
                                          const Options& options) {
  const double least =
      std::max(evaluation.predict(in_force).speed(), goal.speed()) / options.trial_slowdown;
  const Prediction* oldest = nullptr;
  std::int64_t oldest_seen = inputs.step - options.stale_steps;
  for (const Prediction& each : evaluation.all()) {
    if (!same_rhythm(each.plan, in_force) || each.plan.density < in_force.density ||
        each.speed() < least)
      continue;
    const std::int64_t seen = inputs.last_seen.at(evaluation.correction_of(each.plan));
    const bool better = oldest != nullptr && seen == oldest_seen && each.speed() > oldest->speed();
    if (seen >= oldest_seen && !better) continue;
    oldest = &each;
    oldest_seen = seen;
  }
  // Corrections age slowly: if none is stale now, the next look waits until all have grown older.
  next_trial = inputs.step +
               (oldest == nullptr ? options.stale_steps : options.trial_period * in_force.every);
  if (oldest == nullptr) return std::nullopt;
  return Trial{*oldest, oldest_seen};
}

}  // namespace pliant::control
