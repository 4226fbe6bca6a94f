// SPDX-License-Identifier: MIT
#include "pliant/control/warm_up.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "pliant/plan/density.h"

namespace pliant::control {
namespace {

using model::Prediction;
using plan::Plan;

// Density from which on a shorter age is preferred to a higher density: that of the ramp's start.
constexpr double kDenseEnough = 0.1;

// A plan that is no longer than this part of the longest allowed step is worth a switch.
constexpr double kMargin = 1.2;

Plan dense_like(const Plan& plan) {
  Plan dense = plan::complete({.kind = plan.kind, .scheme = plan::Scheme::kDense});
  dense.every = plan.every;
  dense.late = plan.late;
  return dense;
}

// The usual densities above `target`, densest first.
std::vector<double> rungs_above(double target) {
  std::vector<double> rungs;
  std::ranges::copy_if(plan::kDensities, std::back_inserter(rungs),
                       [target](double density) { return density > target; });
  return rungs;
}

}  // namespace

std::optional<Plan> scheduled_warm_up(const Plan& plan, WarmUp how, std::int64_t steps,
                                      std::uint64_t step) {
  const auto all = static_cast<std::uint64_t>(std::max<std::int64_t>(steps, 0));
  if (how == WarmUp::kNone || plan.scheme == plan::Scheme::kDense || step >= all)
    return std::nullopt;
  if (how == WarmUp::kDense) return dense_like(plan);
  const std::vector<double> rungs = rungs_above(plan.density);
  Plan denser = plan;
  if (!rungs.empty()) denser.density = rungs[static_cast<std::size_t>(step * rungs.size() / all)];
  return denser;
}

bool warming_up(const Options& options, std::int64_t step) { return step < options.warm_up_steps; }

bool warm_up_ended(const Options& options, std::int64_t before, std::int64_t step) {
  return warming_up(options, before) && !warming_up(options, step);
}

// Early steps are the noisiest, so a short age comes before a high density. With Adam dense
// gradients come first, if there is time for them: second moments that grow from each rank's own
// gradients make every later step worth less (docs/model.md).
Prediction warm_up_before(const Prediction& goal, const Evaluation& evaluation,
                          const Options& options) {
  const auto densest_of = [&](plan::Kind kind, double oldest) {
    return densest(evaluation.those([&](const Prediction& each) {
      return each.plan.kind == kind && model::age_of(each.plan) <= oldest &&
             (oldest > 0 || each.efficiency >= options.least_worth);
    }),
                   options.warm_up_slowdown * goal.step);
  };
  if (evaluation.inputs().adam) {
    const Prediction* averaged = densest_of(plan::Kind::kGradients, 0);
    if (averaged != nullptr && averaged->plan.density == 1) return *averaged;
  }
  const double dense_enough = std::max(goal.plan.density, kDenseEnough);
  for (const double oldest : {0.0, 1.0, 2.0}) {
    const Prediction* found = densest_of(goal.plan.kind, oldest);
    if (found != nullptr && found->plan.density >= dense_enough) return *found;
  }
  const Prediction* found = densest_of(goal.plan.kind, model::age_of(goal.plan));
  return found == nullptr || found->plan.density <= goal.plan.density ? goal : *found;
}

double warm_up_advantage(const Prediction& target, const Prediction& now, const Prediction& goal,
                         const Options& options) {
  const double longest = options.better * options.warm_up_slowdown * goal.step.value;
  if (now.step.value > longest) return now.step.value / target.step.value;
  if (now.plan.density < target.plan.density)
    return target.step.value < longest / kMargin ? options.better_at_once : 1;
  return target.speed() / now.speed();
}

}  // namespace pliant::control
