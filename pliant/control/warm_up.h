// SPDX-License-Identifier: MIT
// Warm-up: the first steps of training move the parameters most, so they run denser. It names the
// plan to run before the one that is wanted.
#pragma once

#include <cstdint>
#include <optional>

#include "pliant/control/evaluation.h"

namespace pliant::control {

// -- of a pinned plan: by a schedule --

// The plan after `step` steps on the way to `plan`; nullopt from `steps` on.
[[nodiscard]] std::optional<plan::Plan> scheduled_warm_up(const plan::Plan& plan, WarmUp how,
                                                          std::int64_t steps, std::uint64_t step);

// -- of a plan that is chosen: by predictions --

[[nodiscard]] bool warming_up(const Options& options, std::int64_t step);

// Whether warm-up ended after the evaluation at step `before`.
[[nodiscard]] bool warm_up_ended(const Options& options, std::int64_t before, std::int64_t step);

// The plan of the smallest age (model::age_of) that is dense, or the densest, whose step takes at
// most `warm_up_slowdown` times the goal's.
[[nodiscard]] model::Prediction warm_up_before(const model::Prediction& goal,
                                               const Evaluation& evaluation,
                                               const Options& options);

// Factor by which `target` is better than `now` during warm-up: denser is better as long as the
// step is not too long.
[[nodiscard]] double warm_up_advantage(const model::Prediction& target,
                                       const model::Prediction& now, const model::Prediction& goal,
                                       const Options& options);

}  // namespace pliant::control
