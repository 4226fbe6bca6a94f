// SPDX-License-Identifier: MIT
// Coding: estimate of how much longer coding takes beside training than the cost table says.
// Training and coding share processors and caches.
#pragma once

#include <algorithm>

#include "pliant/common/units.h"
#include "pliant/observe/level.h"

namespace pliant::observe {

class Coding {
 public:
  // Beyond these limits something other than coding was timed.
  static constexpr double kLeast = 0.5;
  static constexpr double kMost = 4;

  // `measured` is the slowest rank's time, `expected` the time by the cost table.
  void take(double measured, Seconds expected) {
    if (expected.value > 0) level_.take(measured / expected.value);
  }

  // 1 before the first measurement.
  [[nodiscard]] double factor() const {
    return level_.known() ? std::clamp(level_.value(), kLeast, kMost) : 1;
  }

  [[nodiscard]] const Level& level() const { return level_; }
  void restore(const Level& level) { level_ = level; }

 private:
  Level level_;
};

}  // namespace pliant::observe
