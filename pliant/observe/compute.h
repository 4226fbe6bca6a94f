// SPDX-License-Identifier: MIT
// Compute: estimate of the compute time of one training step, without exchanges and coding.
#pragma once

#include "pliant/common/units.h"
#include "pliant/observe/level.h"

namespace pliant::observe {

class Compute {
 public:
  // Before the first step has been timed: long enough that no exchange looks urgent.
  static constexpr Seconds kUsual = {0.1};

  // `steps` training steps computed for `seconds` on the slowest rank.
  void take(double seconds, int steps) { level_.take(seconds / steps); }

  [[nodiscard]] bool known() const { return level_.known(); }
  [[nodiscard]] Seconds of_a_step() const { return known() ? Seconds{level_.value()} : kUsual; }
  [[nodiscard]] double uncertainty() const { return level_.uncertainty(); }  // relative

  [[nodiscard]] const Level& level() const { return level_; }
  void restore(const Level& level) { level_ = level; }

 private:
  Level level_;
};

}  // namespace pliant::observe
