// SPDX-License-Identifier: MIT
// Random networks, and figures for how well a Loop does on them. For tests and for bench/control.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "pliant/control/front.h"
#include "tests/control/loop.h"

namespace pliant::test {

// Time per unit of progress under the plan in force, over that under the best of all plans that
// guard-rails and ramp allow, if the network were known.
inline double regret(Loop& loop, double least_density = 0) {
  const model::Inputs truth = loop.truth();
  auto plans = plan::candidates(truth.world.size, loop.options.candidates);
  std::erase_if(plans, [&](const plan::Plan& plan) {
    return !control::allowed(plan, loop.options.candidates.pins, loop.options.guards, truth.adam) ||
           plan.density < least_density;
  });
  const auto all = model::predict_all(plans, truth, loop.book);
  const auto now = std::ranges::find(all, loop.plan(), &model::Prediction::plan);
  const double speed =
      now != all.end() ? now->speed() : model::predict(loop.plan(), truth, loop.book).speed();
  return control::fastest(control::all_of(all))->speed() / speed;
}

inline double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values.at(static_cast<std::size_t>(q * static_cast<double>(values.size() - 1)));
}

struct Setting {
  int ranks;
  plan::Link link;
  std::size_t length;
  Seconds compute;
};

// Evenly over the logarithms: 0.05 to 100 ms, 10 Mbit/s to 25 Gbit/s, 0.2 M to 100 M parameters,
// compute 5 to 500 ms.
inline Setting random_setting(unsigned seed) {
  SyntheticNetwork dice({}, seed);
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, dice.even());
  };
  const int ranks = std::array{4, 8, 32}.at(seed % 3);
  const plan::Link link =
      plan::link_of(from_bits_per_second(between(10e6, 25e9)), {between(50e-6, 100e-3)});
  const auto length = static_cast<std::size_t>(between(0.2e6, 100e6));
  return {ranks, link, length, {between(5e-3, 0.5)}};
}

inline void run(Loop& loop, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) (void)loop.step();
}

// Steps from a change of the network until the plan in force makes `share` of the progress of the
// best that the ramp allows. What the plan's own rhythm takes beyond the 10 steps that everybody
// has (three exchanges, of which the last lands late) is taken off.
inline double replan_steps(Loop& loop, const plan::Link& to, double share = 0.85) {
  const plan::Plan before = loop.plan();
  loop.network.link = to;
  const std::int64_t changed = loop.now();
  const std::int64_t rhythm = std::max(0, 3 * before.every + before.late - 10);
  const double floor = std::min(0.1, before.density / 3.4);
  double lost = regret(loop, floor);
  while (lost > 1 / share && loop.now() - changed < 60) {
    const plan::Plan last = loop.plan();
    (void)loop.step();
    if (loop.plan() != last) lost = regret(loop, floor);
  }
  return static_cast<double>(loop.now() - changed - rhythm);
}

// Whether the same policy in the same state would keep the plan in force if it knew the network.
inline bool as_if_known(Loop& loop) {
  control::State state = loop.state;
  control::Inputs known = loop.inputs;
  known.model = loop.truth();
  known.changed = true;
  known.step = loop.now() + 1;
  return control::decide(known, loop.options, state, loop.book).choice == loop.plan();
}

// Steps from a change of the network until the plan in force is the policy's choice under the ramp;
// the plan's rhythm taken off as above.
inline double steps_until_as_if_known(Loop& loop, const plan::Link& to) {
  const plan::Plan before = loop.plan();
  loop.network.link = to;
  const std::int64_t changed = loop.now();
  while (!as_if_known(loop) && loop.now() - changed < 60) (void)loop.step();
  return static_cast<double>(loop.now() - changed -
                             std::max(0, 3 * before.every + before.late - 10));
}

// Changes of plan that are no trials.
inline bool switched(const std::optional<control::Decision>& decision) {
  return decision && decision->changed && !decision->trial &&
         decision->reason != "the trial is over";
}

}  // namespace pliant::test
