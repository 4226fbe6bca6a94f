// SPDX-License-Identifier: MIT
// A network that is all model: exchanges take their price times noise. Log-normal of 20 %, and 1 %
// of timings are five times too long; the seed decides everything.
#pragma once

#include <cmath>
#include <random>

#include "pliant/model/coefficients.h"
#include "pliant/plan/link.h"

namespace pliant::test {

class SyntheticNetwork {
 public:
  SyntheticNetwork(const plan::Link& truth, unsigned seed, double spread = 0.2,
                   double outliers = 0.01)
      : link(truth), random_(seed), spread_(spread), outliers_(outliers) {}

  [[nodiscard]] Seconds noisy(Seconds exact) {
    const double by = spread_ * normal();
    const double outlier = even() < outliers_ ? 5 : 1;
    return exact * std::exp(by) * outlier;
  }
  [[nodiscard]] Seconds took(const model::Weight& weight) {
    const Seconds on_the_wire = noisy(weight.over(link));
    return busy.value > 0 ? on_the_wire + busy * std::exp(kBusySpread * normal()) : on_the_wire;
  }

  // Not std::normal_distribution, which differs between standard libraries: twelve even numbers add
  // up to nearly normal.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += even();
    return sum;
  }

  // In [0, 1).
  double even() { return static_cast<double>(random_() >> 8U) * 0x1p-24; }

  plan::Link link;
  // The usual delay until a busy host looks at what has arrived; 0 if it does so at once. Four
  // ranks on two cores that others use too were seen to wait for 0.3 to 50 ms, mostly about 5.
  Seconds busy = {};
  static constexpr double kBusySpread = 1.2;

 private:
  std::mt19937 random_;
  double spread_, outliers_;
};

}  // namespace pliant::test
