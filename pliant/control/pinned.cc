// SPDX-License-Identifier: MIT
#include "pliant/control/pinned.h"

#include <fmt/format.h>

#include "pliant/control/warm_up.h"
#include "pliant/plan/density.h"

namespace pliant::control {
namespace {

// Density where a sparse scheme is pinned without one: trials lose little at 1 %, and it is a
// hundredth of the bytes.
constexpr double kUsualDensity = 0.01;

plan::Plan completed(plan::Pins pins) {
  if (!pins.kind)
    pins.kind = pins.every || pins.late ? plan::Kind::kUpdates : plan::Kind::kGradients;
  if (!pins.density && pins.scheme && pins.scheme != plan::Scheme::kDense)
    pins.density = kUsualDensity;
  return plan::complete(pins);
}

}  // namespace

bool is_complete(const plan::Pins& pins) {
  return pins.kind && pins.scheme && (pins.density || pins.scheme == plan::Scheme::kDense);
}

PinnedPlan::PinnedPlan(const plan::Pins& pins, WarmUp warm_up, std::int64_t warm_up_steps)
    : plan_(completed(pins)),
      reason_(pins == plan::Pins{} ? "no plan is pinned and none is chosen, so it is dense"
                                   : fmt::format("pinned: {}", to_string(pins))),
      warm_up_(warm_up),
      warm_up_steps_(warm_up_steps) {}

PinnedPlan::Now PinnedPlan::at(std::uint64_t round) const {
  // A round of updates is the outcome of `every` steps.
  const auto steps =
      static_cast<std::uint64_t>(plan_.kind == plan::Kind::kUpdates ? plan_.every : 1);
  const auto before = scheduled_warm_up(plan_, warm_up_, warm_up_steps_, round * steps);
  if (!before) return {plan_, reason_, Cause::kPinned};
  if (before->scheme == plan::Scheme::kDense)
    return {*before, fmt::format("warm-up: dense for the first {} steps", warm_up_steps_),
            Cause::kWarmUp};
  return {*before,
          fmt::format("warm-up: density falls to {} within {} steps",
                      plan::density_text(plan_.density), warm_up_steps_),
          Cause::kWarmUp};
}

}  // namespace pliant::control
