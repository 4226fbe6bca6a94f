// SPDX-License-Identifier: MIT
#include "pliant/planner/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "pliant/plan/density.h"

namespace pliant::planner {
namespace {

// Where a sparse scheme is pinned and its density is not: our trials lose little at 1 %, and it is
// a hundredth of the bytes.
constexpr double kUsualDensity = 0.01;

plan::Plan settle(plan::Pins pins) {
  if (!pins.kind)
    pins.kind = pins.every || pins.late ? plan::Kind::kUpdates : plan::Kind::kGradients;
  if (!pins.density && pins.scheme && pins.scheme != plan::Scheme::kDense)
    pins.density = kUsualDensity;
  return plan::complete(pins);
}

// The densities tried on the way down to `target`, densest first.
std::vector<double> ladder(double target) {
  std::vector<double> rungs;
  std::ranges::copy_if(plan::kDensities, std::back_inserter(rungs),
                       [target](double density) { return density > target; });
  return rungs;
}

}  // namespace

FixedPolicy::FixedPolicy(const plan::Pins& pins, WarmUp warm_up, std::int64_t warm_up_steps,
                         std::unique_ptr<Policy> onlooker)
    : plan_(settle(pins)),
      reason_(pins == plan::Pins{} ? "nothing is pinned and nothing is chosen: dense"
                                   : fmt::format("pinned: {}", to_string(pins))),
      warm_up_(plan_.scheme == plan::Scheme::kDense ? WarmUp::kNone : warm_up),
      warm_up_steps_(static_cast<std::uint64_t>(std::max<std::int64_t>(warm_up_steps, 0))),
      onlooker_(std::move(onlooker)) {}

Choice FixedPolicy::choose(std::uint64_t step) {
  if (onlooker_ != nullptr) (void)onlooker_->choose(step);
  if (warm_up_ == WarmUp::kNone || step >= warm_up_steps_) return {plan_, reason_};
  if (warm_up_ == WarmUp::kDense) {
    const plan::Pins dense{.kind = plan_.kind, .scheme = plan::Scheme::kDense};
    plan::Plan plan = plan::complete(dense);
    plan.every = plan_.every;
    plan.late = plan_.late;
    return {plan, fmt::format("warm-up: dense for the first {} steps", warm_up_steps_)};
  }
  const auto rungs = ladder(plan_.density);
  plan::Plan plan = plan_;
  if (!rungs.empty())
    plan.density = rungs[static_cast<std::size_t>(step * rungs.size() / warm_up_steps_)];
  return {plan, fmt::format("warm-up: on the way to {} within {} steps",
                            plan::density_text(plan_.density), warm_up_steps_)};
}

void FixedPolicy::take_in(std::span<const Record> records) {
  if (onlooker_ != nullptr) onlooker_->take_in(records);
}

void FixedPolicy::note_units(const std::vector<std::size_t>& lengths) {
  if (onlooker_ != nullptr) onlooker_->note_units(lengths);
}

void FixedPolicy::note_ran(std::uint64_t round, const plan::Plan& plan) {
  if (onlooker_ != nullptr) onlooker_->note_ran(round, plan);
}

void FixedPolicy::note_result(const plan::Plan& plan, const Result& result) {
  if (onlooker_ != nullptr) onlooker_->note_result(plan, result);
}

void FixedPolicy::note_buffers(bool at_home) {
  if (onlooker_ != nullptr) onlooker_->note_buffers(at_home);
}

Outlook FixedPolicy::outlook(const plan::Plan& plan) {
  return onlooker_ != nullptr ? onlooker_->outlook(plan) : Outlook{};
}

bool is_complete(const plan::Pins& pins) {
  return pins.kind && pins.scheme && (pins.density || pins.scheme == plan::Scheme::kDense);
}

}  // namespace pliant::planner
