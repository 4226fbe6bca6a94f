// SPDX-License-Identifier: MIT
// Detector of changes of the network. Two running sums of log(seen / predicted), one for slower and
// one for faster, each less an allowance per timing (CUSUM), catch lasting shifts. A timing far
// outside all noise counts at once.
#pragma once

namespace pliant::observe {

class Detector {
 public:
  // Allowance and alarm level in units of the usual spread. Noise alone gets from 0 to the level
  // about once in exp(2 x 0.7 x 6.8), 13,000 timings; an outlier counts 3 - 0.7, so it takes three
  // in a row. A shift of 3 spreads or more is seen at the third timing.
  static constexpr double kAllowance = 0.7;
  static constexpr double kLevel = 6.8;
  static constexpr double kClip = 3;
  // At once: slower than an outlier of 5x with three spreads of 20 % of noise on top; or two
  // timings in a row that are 4x slower (1 % of outliers come in pairs once in 10,000 timings, and
  // the third timing corrects that); or three times faster, which noise of 20 % does not do.
  static constexpr double kSlowerAtOnce = 2.15;   // log 8.6
  static constexpr double kSlowerTwice = 1.386;   // log 4
  static constexpr double kFasterAtOnce = 1.099;  // log 3
  // Where noise is larger, so much more is needed: three spreads in excess of 20 % each. Four
  // spreads faster come once in 30,000 timings.
  static constexpr double kUsualSpread = 0.2;
  static constexpr double kExcess = 3;
  static constexpr double kFasterSpreads = 4;

  // A busy host delays small messages by any factor: a single slow one says nothing, and two must
  // be far beyond outliers.
  enum class Slow { kMayBeOnce, kMustBeTwice };

  // Returns the number of latest timings that belong to the new network, this one included; 0 if
  // nothing changed. After a change the sums start anew.
  int take(double log_ratio, double spread, Slow slow = Slow::kMayBeOnce);

  // Whether something may be changing; then nothing is learnt about usual timings.
  [[nodiscard]] bool suspicious() const {
    return state_.slower > kLevel / 2 || state_.faster > kLevel / 2;
  }

  struct State {
    double slower = 0, faster = 0;
    int slower_for = 0, faster_for = 0;  // timings since the sum left 0
    double last = 0;                     // log ratio
    bool operator==(const State&) const = default;
  };
  [[nodiscard]] const State& state() const { return state_; }
  explicit Detector(const State& state) : state_(state) {}
  Detector() = default;
  bool operator==(const Detector&) const = default;

 private:
  State state_ = {};
};

}  // namespace pliant::observe
