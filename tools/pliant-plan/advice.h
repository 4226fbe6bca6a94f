// SPDX-License-Identifier: MIT
// Advice of pliant-plan: the best plan of each scheme, whether compression pays, and up to which
// bandwidth.
#pragma once

#include <optional>
#include <vector>

#include "tools/pliant-plan/options.h"

namespace pliant::what_if {

struct Range {
  double low = 1;
  double high = 1;
};

struct Advice {
  model::Prediction plain;                 // plain DDP
  std::vector<model::Prediction> schemes;  // the best of each, the fastest first
  model::Prediction best;
  int candidates = 0;
  std::optional<model::Prediction> replay =
      {};  // of the plan that the log ends with, if all is as logged

  // Progress per second over plain DDP's, with the efficiency that is assumed.
  [[nodiscard]] double speed_up(const model::Prediction& prediction) const {
    return prediction.efficiency * plain.step.value / prediction.step.value;
  }
  // The same where the efficiency is off as far as in trials.
  [[nodiscard]] Range speed_up_range(const model::Prediction& prediction) const;
};

// Efficiency of a step in trials with three small models over what is assumed (docs/model.md).
inline constexpr Range kEfficiencyInTrials = {.low = 0.8, .high = 1.1};
// Cost of a step (1 - worth) by the loss at the end of a schedule, over what is assumed
// (docs/model.md).
inline constexpr Range kCostInTrials = {.low = 0.3, .high = 1.5};
// No plan that is assumed to be worth less was tried: its range begins at half.
inline constexpr double kLeastTried = 0.6;
// A step of plain DDP's own arithmetic is worth 1, which is no assumption.
[[nodiscard]] Range efficiency_range(const model::Prediction& prediction);

// Bytes per parameter that an averager adds on each rank under a plan: residual, base, copies,
// payloads and decoded entries. An estimate; the first steps allocate.
[[nodiscard]] double memory_per_parameter(const plan::Plan& plan, const model::Inputs& inputs);

// A step of plain DDP over the ranks of an island. inputs: of the whole model.
[[nodiscard]] Seconds step_inside(const model::Inputs& inputs, const Islands& islands);

// Compressing must be worth more than this to be advised.
inline constexpr double kWorthIt = 1.02;

[[nodiscard]] Advice advise(const Options& options, model::PriceBook& book);

// Where plain dense comes within 2 % of the best, if every link's bandwidth is scaled alike: the
// slowest link's bandwidth then. Nothing if that is nowhere between 1 Mbit/s and 1 Tbit/s.
[[nodiscard]] std::optional<BytesPerSecond> break_even(const Options& options,
                                                       model::PriceBook& book);

// The links of --sweep.
[[nodiscard]] std::vector<plan::Link> sweep_links();

}  // namespace pliant::what_if
