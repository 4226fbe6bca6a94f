// SPDX-License-Identifier: MIT
// Level: running estimate of a quantity that is measured often and mostly stays the same, such as
// the compute time of a step.
#pragma once

#include <algorithm>
#include <cmath>

namespace pliant::observe {

// Follows slowly, ignores single outliers, and jumps when three measurements in a row agree.
class Level {
 public:
  Level() = default;
  explicit Level(double value) { take(value); }  // as saved: 0 if nothing had been measured

  // Values that are not finite or not above 0 are refused: returns false and changes nothing.
  bool take(double measured) {
    if (!std::isfinite(measured) || measured <= 0) return false;
    if (value_ == 0) value_ = measured;
    const double ratio = measured / value_;
    // A quarter more or less is another level, not noise around this one.
    const int side = ratio > 1.25 ? 1 : ratio < 0.8 ? -1 : 0;
    away_ = side == 0 ? 0 : side * away_ > 0 ? away_ + side : side;
    if (std::abs(away_) >= 3) {
      value_ = measured;
      away_ = 0;
    } else {
      value_ *= std::exp(0.1 * std::clamp(std::log(ratio), -0.2, 0.2));
    }
    return true;
  }
  [[nodiscard]] double value() const { return value_; }  // 0 before the first measurement
  [[nodiscard]] bool known() const { return value_ > 0; }
  bool operator==(const Level&) const = default;

 private:
  double value_ = 0;
  int away_ = 0;  // measurements in a row on one side
};

}  // namespace pliant::observe
