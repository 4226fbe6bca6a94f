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
    // Not std::normal_distribution, which differs between standard libraries: twelve even numbers
    // add up to nearly normal.
    double normal = -6;
    for (int i = 0; i < 12; ++i) normal += even();
    const double outlier = even() < outliers_ ? 5 : 1;
    return exact * std::exp(spread_ * normal) * outlier;
  }
  [[nodiscard]] Seconds took(const model::Weight& weight) { return noisy(weight.over(link)); }

  // In [0, 1).
  double even() { return static_cast<double>(random_() >> 8U) * 0x1p-24; }

  plan::Link link;

 private:
  std::mt19937 random_;
  double spread_, outliers_;
};

}  // namespace pliant::test
