// SPDX-License-Identifier: MIT
// A quantity that is measured again and again and mostly stays put: compute time, readiness of a
// bucket, overlap of selections.
#pragma once

#include <algorithm>
#include <cmath>

namespace pliant::observe {

// Follows slowly, ignores lone outliers, and believes a jump that three measurements in a row agree
// on.
class Level {
 public:
  // Nonsense (not finite, not above 0) is refused: false, and nothing has changed.
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
  [[nodiscard]] double value() const { return value_; }  // 0: nothing measured yet
  [[nodiscard]] bool known() const { return value_ > 0; }
  bool operator==(const Level&) const = default;

 private:
  double value_ = 0;
  int away_ = 0;  // measurements in a row on one side
};

}  // namespace pliant::observe
