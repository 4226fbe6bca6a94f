// SPDX-License-Identifier: MIT
#include "pliant/control/plain_check.h"

#include <algorithm>
#include <utility>

namespace pliant::control {
namespace {

// Plain DDP is timed at once if it is predicted to take at most half as long again, and never if it
// is predicted to take more than four times as long. In between it is timed when the few steps that
// show the difference cost at most 3 % of the training so far. On hosts with busy processors
// predictions were off by a factor of 3.
constexpr double kAtOnce = 1.5;
constexpr double kNever = 4;
constexpr double kMostCost = 0.03;
// A check ends early if plain steps take this much longer.
constexpr double kTooLong = 2;
constexpr int kRoundsToTell = 2;
constexpr int kRoundsUntilSeen = 2;  // records come two rounds later
// At most 9 of 1,000 steps are plain ones for the sake of checks, and later fewer.
constexpr std::int64_t kLongestPeriod = 16'000;
// Steps until an unpromising check is considered again: the network may have become faster.
constexpr std::int64_t kPutOff = 50;
// Plain steps are remembered for so long: the time in which a plan that replaced them is seen.
constexpr std::int64_t kMemory = 300;

}  // namespace

bool PlainCheck::looks_like_a_change(const plan::Plan& in_force, const Inputs& inputs) const {
  const bool saw_plain = inputs.seen && inputs.seen->plan && is_plain(*inputs.seen->plan);
  return running() || (saw_plain && !is_plain(in_force));
}

bool PlainCheck::ready(const plan::Plan& in_force, const Inputs& inputs) const {
  if (!inputs.seen || inputs.seen->plan != in_force || running() != is_plain(in_force))
    return false;
  const bool too_long = inputs.seen->step.value > kTooLong * compared_step;
  if (running()) return inputs.seen->rounds >= (too_long ? kRoundsToTell : kRounds);
  return inputs.seen->rounds >= kRounds && inputs.step >= next;
}

bool PlainCheck::worthwhile(const plan::Plan& in_force, const Evaluation& evaluation,
                            const Inputs& inputs) const {
  const model::Prediction* plain = evaluation.plain();
  if (plain == nullptr || !inputs.seen) return false;
  const double speed = evaluation.predict(in_force).counted / inputs.seen->step.value;
  const double ratio = speed / plain->speed();
  const double lost = (kRoundsToTell + kRoundsUntilSeen) * (ratio - 1);
  return ratio < kAtOnce || (ratio < kNever && lost < kMostCost * static_cast<double>(inputs.step));
}

void PlainCheck::begin(const plan::Plan& in_force, const Inputs& inputs) {
  compared = in_force;
  compared_step = inputs.seen->step.value;
}

bool PlainCheck::end(const Evaluation& evaluation, const Inputs& inputs) {
  note_plain(inputs);
  const plan::Plan before = *std::exchange(compared, std::nullopt);
  return faster_than_plain(before, compared_step, evaluation, inputs);
}

void PlainCheck::note_plain(const Inputs& inputs) {
  const bool enough = running() || (inputs.seen && inputs.seen->rounds >= kRounds);
  if (!enough || !inputs.seen || !inputs.seen->plan || !is_plain(*inputs.seen->plan)) return;
  plain_step = inputs.seen->step.value;
  plain_seen = inputs.step;
}

bool PlainCheck::remembers_plain(const Inputs& inputs) const {
  return plain_step > 0 && inputs.step - plain_seen <= kMemory;
}

bool PlainCheck::check_by_memory(const Evaluation& evaluation, const Inputs& inputs) {
  return faster_than_plain(*inputs.seen->plan, inputs.seen->step.value, evaluation, inputs);
}

bool PlainCheck::faster_than_plain(const plan::Plan& plan, double step,
                                   const Evaluation& evaluation, const Inputs& inputs) {
  const model::Prediction other = evaluation.predict(plan);
  const model::Prediction& plain = *evaluation.plain();
  const double predicted = other.step.value - overhead / plan.every - plain.step.value;
  overhead = std::max(0.0, step - plain_step - predicted) * plan.every;
  next = inputs.step + period;
  period = std::min(2 * period, kLongestPeriod);
  return other.counted / step > evaluation.options().better_than_plain * plain.counted / plain_step;
}

void PlainCheck::put_off(const Inputs& inputs) { next = inputs.step + kPutOff; }

void PlainCheck::forget_slowly(const Inputs& inputs) {
  if (overhead == 0 || inputs.step < next) return;
  overhead /= 2;
  next = inputs.step + period;
}

}  // namespace pliant::control
