// SPDX-License-Identifier: MIT
// Ramp: lets density fall in small steps, because a sudden fall raises the loss for hundreds of
// steps. It names the plan on the way to the goal that may be in force now.
#pragma once

#include <cstdint>
#include <optional>

#include "pliant/control/evaluation.h"

namespace pliant::control {

struct Ramp {
  std::int64_t sparser = -1;  // step at which density last fell; -1 = never
  std::int64_t denser = -1;   // step at which it last rose; -1 = never
  double before_denser = 1;   // density before that rise

  // The goal if its density is allowed now, else the best plan of its kind that is.
  [[nodiscard]] model::Prediction towards(const model::Prediction& goal,
                                          const std::optional<plan::Plan>& in_force,
                                          const Evaluation& evaluation, const Options& options,
                                          std::int64_t step) const;

  // The lowest density allowed at `step`.
  [[nodiscard]] double floor(const std::optional<plan::Plan>& in_force, const Options& options,
                             std::int64_t step) const;

  // Whether a lower density than the one in force is allowed at `step` and was not at `before`.
  [[nodiscard]] bool opened(const plan::Plan& in_force, const Options& options, std::int64_t before,
                            std::int64_t step) const;

  void note_switch(double from, double to, const Options& options, std::int64_t step);
  bool operator==(const Ramp&) const = default;
};

}  // namespace pliant::control
