// SPDX-License-Identifier: MIT
#include "pliant/compress/gain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "pliant/compress/selector.h"
#include "tests/support/distributions.h"

namespace pliant::compress {
namespace {

const std::vector<double> kDensities = {0,     0.0001, 0.001, 0.004, 0.01, 0.011,
                                        0.033, 0.1,    0.3,   0.7,   1};

std::vector<double> true_gains(std::vector<float> values) {
  std::ranges::sort(values, [](float a, float b) { return std::abs(a) > std::abs(b); });
  const auto energy_of = [&](std::size_t count) {
    return std::transform_reduce(values.begin(),
                                 values.begin() + static_cast<std::ptrdiff_t>(count), 0.0,
                                 std::plus<>(), [](float x) { return double{x} * double{x}; });
  };
  const double all = energy_of(values.size());
  std::vector<double> gains;
  for (const double density : kDensities) {
    const auto count =
        static_cast<std::size_t>(std::llround(density * static_cast<double>(values.size())));
    gains.push_back(all == 0 ? 1 : energy_of(count) / all);
  }
  return gains;
}

// Selects 1 % of `values`, after a first round that gives the selector its threshold, and asks for
// the curve.
std::vector<GainPoint> curve_of(const std::vector<float>& values) {
  const std::size_t keep = values.size() / 100;
  Selector selector({values.size()});
  selector.aim({keep});
  Selection selection;
  for (int round = 0; round < 2; ++round) {
    std::vector<float> residual(values.size());
    selector.select(0, Gradient{values}, residual, selection);
    selector.end_round();
  }
  const std::vector<std::span<const float>> kept = {std::as_const(selection).values()};
  return gain_curve(selector.picture(), kept, kDensities);
}

TEST(GainCurve, IsExactUpToTheDensityOfTheRoundAndWithinThreeStandardErrorsAbove) {
  std::mt19937_64 random(1);
  std::vector<float> values(400'000);
  double squared_errors = 0;
  int estimates = 0;
  for (const Distribution distribution : kDistributions) {
    for (int trial = 0; trial < 8; ++trial) {
      draw_all(distribution, 0.01F, random, values);
      const auto truth = true_gains(values);
      const auto curve = curve_of(values);
      for (std::size_t d = 0; d < curve.size(); ++d) {
        if (kDensities[d] <= 0.0099 || kDensities[d] == 1) {
          EXPECT_EQ(curve[d].standard_error, 0) << kDensities[d];
        }
        EXPECT_NEAR(curve[d].gain, truth[d], 3 * curve[d].standard_error + 1e-9)
            << to_string(distribution) << ", trial " << trial << ", density " << kDensities[d];
        if (curve[d].standard_error == 0) continue;
        squared_errors += std::pow((curve[d].gain - truth[d]) / curve[d].standard_error, 2);
        ++estimates;
      }
    }
  }
  const double typical = std::sqrt(squared_errors / estimates);
  EXPECT_GT(typical, 0.5) << "the standard errors stated are too large";
  EXPECT_LT(typical, 1.4) << "the standard errors stated are too small";
}

TEST(GainCurve, OfEqualEntriesIsTheDensityAndOfZerosIsOne) {
  const auto equal = curve_of(std::vector<float>(100'000, 0.25F));
  const auto zeros = curve_of(std::vector<float>(100'000));
  ASSERT_EQ(equal.size(), kDensities.size());
  ASSERT_EQ(zeros.size(), kDensities.size());
  for (const auto& point : equal) EXPECT_NEAR(point.gain, point.density, 1e-6);
  for (const auto& point : zeros) EXPECT_EQ(point.gain, 1);
}

TEST(GainCurve, OfASmallModelIsExactEverywhere) {
  std::mt19937_64 random(2);
  std::vector<float> values(5'000);
  draw_all(Distribution::kLaplace, 1, random, values);
  const auto truth = true_gains(values);
  const auto curve = curve_of(values);
  ASSERT_EQ(curve.size(), truth.size());
  for (std::size_t d = 0; d < curve.size(); ++d) EXPECT_NEAR(curve[d].gain, truth[d], 1e-9);
}

}  // namespace
}  // namespace pliant::compress
