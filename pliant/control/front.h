// SPDX-License-Identifier: MIT
// Pareto front of predicted plans, and the plans on it that policies take.
#pragma once

#include <span>
#include <vector>

#include "pliant/control/options.h"
#include "pliant/model/predict.h"

namespace pliant::control {

// The Pareto front of (step time, efficiency), by rising step time. Of equals the first stays:
// candidates come plainest first.
[[nodiscard]] std::vector<model::Prediction> front(std::span<const model::Prediction> all);

using Choices = std::vector<const model::Prediction*>;
[[nodiscard]] Choices all_of(std::span<const model::Prediction> predictions);

// The largest efficiency / step time; of equals the first. All three return null if there are none.
[[nodiscard]] const model::Prediction* fastest(const Choices& all);

// The knee of the front of (step time, 1 / gain): both scaled to the front's own range, the point
// nearest to the corner where both are best, by the sum of its coordinates. Only gradient plans
// take part.
[[nodiscard]] const model::Prediction* knee(const Choices& all);

// The densest; of equally dense ones the one with the most progress per second.
[[nodiscard]] const model::Prediction* densest(const Choices& all, Seconds longest_step);

}  // namespace pliant::control
