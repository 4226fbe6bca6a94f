// SPDX-License-Identifier: MIT
// Trials: run another plan for one exchange, to measure its time. They name the plan that is worth
// a trial now.
#pragma once

#include <cstdint>
#include <optional>

#include "pliant/control/evaluation.h"
#include "pliant/control/inputs.h"

namespace pliant::control {

struct Trials {
  std::optional<plan::Plan> after_trial = {};  // the plan to return to, while a trial runs
  std::int64_t next_trial = 0;                 // no trial before this step

  // Where timings vary by half and more, the one of a trial would teach nothing.
  static constexpr double kMostNoise = 0.5;
  [[nodiscard]] bool due(const Options& options, const Inputs& inputs) const;

  struct Trial {
    model::Prediction prediction;
    std::int64_t last_seen;  // step of the last timing of its correction; -1 = never
  };
  // The plan whose correction is oldest: of the same rhythm as the plan in force, no sparser, and
  // nearly as fast as the plan in force and the goal. Sets the time of the next trial.
  [[nodiscard]] std::optional<Trial> pick(const plan::Plan& in_force, const model::Prediction& goal,
                                          const Evaluation& evaluation, const Inputs& inputs,
                                          const Options& options);
  bool operator==(const Trials&) const = default;
};

}  // namespace pliant::control
