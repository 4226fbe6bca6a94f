// SPDX-License-Identifier: MIT
// Overlap and Gain: estimates about the selections that ranks send under sparse plans.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "pliant/model/efficiency.h"
#include "pliant/observe/level.h"

namespace pliant::observe {

// Overlap of the ranks' selections: 0 if they share no more than chance, 1 if they are the same.
class Overlap {
 public:
  // A level is above 0. Selections that share nothing are a measurement too.
  static constexpr double kLeast = 0.01;

  // From the updated fraction of a union of `ranks` selections of this density.
  void take(double updated_fraction, double density, int ranks) {
    level_.take(std::max(model::overlap_of(updated_fraction, density, ranks), kLeast));
  }

  [[nodiscard]] std::optional<double> value() const {
    return level_.known() ? std::optional(std::min(level_.value(), 1.0)) : std::nullopt;
  }

  [[nodiscard]] const Level& level() const { return level_; }
  void restore(const Level& level) { level_ = level; }

 private:
  Level level_;
};

// Gain of the last exchanges, at the density that they had. Another density starts anew.
class Gain {
 public:
  void take(double gain, double density) {
    if (std::exchange(density_, density) != density) level_ = {};
    level_.take(gain);
  }

  // One point, or none before the first measurement.
  [[nodiscard]] model::GainCurve curve() const {
    if (!level_.known()) return {};
    return {.points = {{density_, std::min(level_.value(), 1.0)}}};
  }

  [[nodiscard]] const Level& level() const { return level_; }
  [[nodiscard]] double density() const { return density_; }
  void restore(const Level& level, double density) {
    level_ = level;
    density_ = density;
  }

 private:
  Level level_;
  double density_ = 1;
};

}  // namespace pliant::observe
