// SPDX-License-Identifier: MIT
// LastEvaluation: the inputs that all candidates were last predicted from. It tells whether the
// inputs have moved since.
#pragma once

#include <cstdint>
#include <vector>

#include "pliant/model/predict.h"

namespace pliant::control {

// The inputs that move while training runs, as one row of numbers.
[[nodiscard]] std::vector<double> numbers_of(const model::Inputs& inputs);

struct LastEvaluation {
  std::vector<double> numbers = {};  // numbers_of its inputs
  std::int64_t step = -1;            // -1 = nothing was evaluated yet

  // Whether one number moved by more than `tolerance`, relative. Links, compute and coding must
  // also move by more than twice their uncertainty.
  [[nodiscard]] bool moved(const model::Inputs& now, double tolerance) const;
  bool operator==(const LastEvaluation&) const = default;
};

}  // namespace pliant::control
