// SPDX-License-Identifier: MIT
// Options of the choice of plans. Every number may be set; the reasons given are those of the
// starting values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "pliant/control/guards.h"
#include "pliant/plan/candidates.h"

namespace pliant::control {

// auto: the best plan for the goal. knee: the published policy, the knee of (step time, 1 /
// gain) over gradient plans. fixed: the plan that the pins stand for (PinnedPlan); nothing is
// chosen.
enum class Policy : std::uint8_t { kAuto, kKnee, kFixed };
inline constexpr std::array kPolicies = {Policy::kAuto, Policy::kKnee, Policy::kFixed};
constexpr std::string_view to_string(Policy policy) {
  constexpr std::array<std::string_view, 3> names = {"auto", "knee", "fixed"};
  return names.at(static_cast<std::size_t>(policy));
}

// What `auto` chooses for. steps: the same quality after the same number of steps, as fast as that
// allows. time: the soonest to any loss; steps may be worth less, if they are that much shorter.
enum class Goal : std::uint8_t { kSteps, kTime };
inline constexpr std::array kGoals = {Goal::kSteps, Goal::kTime};
constexpr std::string_view to_string(Goal goal) { return goal == Goal::kSteps ? "steps" : "time"; }

// Start of a pinned plan: at once, dense at first, or from 100 % down to its density in equal
// steps.
enum class WarmUp : std::uint8_t { kNone, kDense, kRamp };

struct Options {
  Policy policy = Policy::kAuto;
  Goal goal = Goal::kSteps;
  // Goal steps: plans whose step is worth less are not taken. At 0.97 a schedule of 1,000 steps
  // ends where plain DDP is after 970, a difference below that between two seeds.
  double least_worth = 0.97;
  plan::CandidateOptions candidates = {};
  Guards guards = {};

  // The first steps move the most: they run at the densest plan whose step takes at most 3x the
  // chosen plan's.
  std::int64_t warm_up_steps = 100;
  double warm_up_slowdown = 3;

  // Getting sparser raises the loss for hundreds of steps if it is sudden: from dense straight to
  // 10 %, then at most 3x per 50 steps. The ladder of densities has rungs of 10/3, so the limit is
  // a little above 3.
  double ramp_start = 0.1;
  double ramp_factor = 3.4;
  std::int64_t ramp_steps = 50;

  // Hysteresis: another plan must be predicted 5 % better (estimates wander by about that much
  // under noise of 20 %) at three decisions in a row; at once if the network has just changed, or
  // if it is half as good again. After a switch 20 steps of rest, except while a change settles:
  // estimates from one or two exchanges are off by 20 %, from six by half of that.
  double better = 1.05;
  int confirmations = 3;
  double better_at_once = 1.5;
  std::int64_t dwell_steps = 20;
  std::int64_t settling_steps = 10;
  int settling_exchanges = 6;

  // Do no harm: whatever is not predicted to be 3 % better than the backend's own all-reduce every
  // step is not worth its risk.
  double better_than_plain = 1.03;

  // A change of kind costs one dense exchange of the old kind and must repay it within this many
  // steps.
  std::int64_t repay_steps = 200;

  // A correction without a timing for 1,000 steps may be refreshed by one exchange of its scheme,
  // if that is predicted within 1.2x of the best. Looking for one takes an evaluation: at most one
  // exchange in 250.
  std::int64_t stale_steps = 1000;
  std::int64_t trial_period = 250;
  double trial_slowdown = 1.2;

  // Inputs that moved by less since the last evaluation do not start another one. For links the
  // limit is twice their uncertainty, if that is more.
  double tolerance = 0.15;
};

// For model::Inputs::least_worth.
[[nodiscard]] constexpr double least_worth(const Options& options) {
  return options.policy == Policy::kAuto && options.goal == Goal::kSteps ? options.least_worth : 0;
}

}  // namespace pliant::control
