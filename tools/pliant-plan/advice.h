// SPDX-License-Identifier: MIT
// Advice of pliant-plan: the best plan of each scheme, whether compression pays, and up to which
// bandwidth.
#pragma once

#include <optional>
#include <vector>

#include "tools/pliant-plan/options.h"

namespace pliant::what_if {

struct Advice {
  model::Prediction plain;                 // plain DDP, or the plainest plan that is allowed
  std::vector<model::Prediction> schemes;  // the best of each, the fastest first
  model::Prediction best;
  int candidates = 0;
  std::optional<model::Prediction> replay =
      {};  // of the plan that the log ends with, if all is as logged

  [[nodiscard]] double speed_up(const model::Prediction& prediction) const {
    return prediction.speed() / plain.speed();
  }
};

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
