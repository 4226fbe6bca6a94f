// SPDX-License-Identifier: MIT
// Decision: the plan in force from now on, and how it came about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pliant/control/change.h"
#include "pliant/model/predict.h"

namespace pliant::control {

struct Decision {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  std::uint64_t inputs_digest = 0;  // ranks that decided from the same inputs have the same digest
  std::string inputs = {};          // for people
  bool evaluated = false;           // false: nothing had moved, so nothing was predicted
  int candidates = 0;               // plans that were predicted
  std::vector<model::Prediction> front =
      {};  // of them, if the plan changed or Inputs::front is set
  std::optional<model::Prediction> chosen = {};  // of the choice; nullopt if nothing was predicted
  plan::Plan choice = {};
  bool changed = false;
  bool trial = false;       // for one exchange only
  std::string reason = {};  // one sentence with whole plans and predictions
  Origin origin = {};       // what the short sentence is made of
};

// One line for the choice and one for the reason; with `details` also the front, a line each.
[[nodiscard]] std::string to_string(const Decision& decision, bool details = false);

}  // namespace pliant::control
