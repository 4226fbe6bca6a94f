// SPDX-License-Identifier: MIT
// Level: running estimate of a quantity that is measured often and mostly stays the same, such as
// the compute time of a step.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

namespace pliant::observe {

// Follows slowly, ignores single outliers, and jumps when three measurements in a row agree that it
// has moved by more than the noise.
class Level {
 public:
  Level() = default;
  explicit Level(double value) { take(value); }  // as saved: 0 if nothing had been measured

  // Values that are not finite or not above 0 are refused: returns false and changes nothing.
  bool take(double measured) {
    if (!std::isfinite(measured) || measured <= 0) return false;
    if (value_ == 0) {
      value_ = last_ = measured;
      centre_ = std::log(measured);
    }
    learn_spread(std::log(measured / std::exchange(last_, measured)));
    const double off = std::log(measured / value_);
    const int side = std::abs(off) <= std::max(kAnotherLevel, 2 * spread_) ? 0 : off > 0 ? 1 : -1;
    away_ = side == 0 ? 0 : side * away_ > 0 ? away_ + side : side;
    if (std::abs(away_) >= 3) {
      value_ = measured;
      away_ = 0;
    } else {
      value_ *= std::exp(kRate * std::clamp(off, -kClip, kClip));
    }
    learn_wander();
    return true;
  }
  [[nodiscard]] double value() const { return value_; }  // 0 before the first measurement
  [[nodiscard]] bool known() const { return value_ > 0; }

  // One standard deviation, relative, of what the value will be: by the noise of measurements and
  // by how far it has wandered over the last hundred. Small noise is averaged at kRate; of large
  // noise only the sign counts, in steps of kRate x kClip, which pull less the more there is of it.
  [[nodiscard]] double uncertainty() const {
    constexpr double kSqrtOf2Pi = 2.5066;
    const double noise = std::min(spread_ * std::sqrt(kRate / 2),
                                  std::sqrt(kRate * kClip * kSqrtOf2Pi / 4 * spread_));
    return std::hypot(noise, wander_);
  }
  bool operator==(const Level&) const = default;

 private:
  // A quarter more or less is another level, unless noise is larger.
  static constexpr double kAnotherLevel = 0.2231;  // log 1.25
  static constexpr double kRate = 0.1;
  static constexpr double kClip = 0.2;
  static constexpr double kSpreadRate = 0.05;
  static constexpr double kWanderRate = 0.02;

  // From the difference of two measurements in a row, which a jump enlarges only once.
  void learn_spread(double difference) {
    constexpr double kMeanToDeviation = 1.2533 * 0.7071;
    measured_ = std::min(measured_ + 1, 1000);
    const double rate = std::max(kSpreadRate, 1.0 / measured_);
    spread_ +=
        rate * (kMeanToDeviation * std::min(std::abs(difference), kMostDifference) - spread_);
  }
  // A host that others use too computes at one pace for a while and then at another.
  void learn_wander() {
    const double rate = std::max(kWanderRate, 1.0 / measured_);
    const double off = std::log(value_) - centre_;
    centre_ += rate * off;
    wander_ += rate * (std::abs(off) - wander_);
  }
  static constexpr double kMostDifference = 3;

  double value_ = 0;
  double last_ = 0;
  double spread_ = 0;  // usual size of log(measured / value)
  double centre_ = 0;  // of log(value) over the last hundred measurements
  double wander_ = 0;  // usual distance from it
  int measured_ = 0;
  int away_ = 0;  // measurements in a row on one side
};

}  // namespace pliant::observe
