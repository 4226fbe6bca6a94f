// SPDX-License-Identifier: MIT
// Estimates about training itself: compute, readiness of units, coding, selections.
#include <gtest/gtest.h>

#include <cmath>

#include "pliant/observe/coding.h"
#include "pliant/observe/compute.h"
#include "pliant/observe/readiness.h"
#include "pliant/observe/selections.h"
#include "pliant/observe/step_times.h"

namespace pliant::observe {
namespace {

TEST(Compute, IsTheTimeOfOneStep) {
  Compute compute;
  EXPECT_FALSE(compute.known());
  EXPECT_EQ(compute.of_a_step(), Compute::kUsual);
  compute.take(0.08, 4);
  EXPECT_TRUE(compute.known());
  EXPECT_EQ(compute.of_a_step().value, 0.02);
  compute.take(-1, 1);
  EXPECT_EQ(compute.of_a_step().value, 0.02) << "no step computes for less than nothing";
}

TEST(Coding, IsAFactorWithinLimits) {
  Coding coding;
  EXPECT_EQ(coding.factor(), 1);
  coding.take(0.01, {0});
  EXPECT_EQ(coding.factor(), 1) << "nothing was expected, so nothing can be compared";
  coding.take(0.017, {0.01});
  EXPECT_NEAR(coding.factor(), 1.7, 1e-12);
  Coding slow;
  slow.take(1, {0.01});
  EXPECT_EQ(slow.factor(), Coding::kMost);
}

TEST(Overlap, OfSelectionsThatShareNothingIsSmall) {
  Overlap overlap;
  EXPECT_FALSE(overlap.value());
  overlap.take(1 - std::pow(0.99, 4), 0.01, 4);
  EXPECT_NEAR(*overlap.value(), Overlap::kLeast, 1e-9);
  Overlap same;
  same.take(0.01, 0.01, 4);
  EXPECT_NEAR(*same.value(), 1, 1e-9);
}

TEST(Gain, StartsAnewAtAnotherDensity) {
  Gain gain;
  EXPECT_TRUE(gain.curve().points.empty());
  for (int i = 0; i < 5; ++i) gain.take(0.3, 0.01);
  EXPECT_EQ(gain.curve().points, (std::vector{std::pair{0.01, 0.3}}));
  gain.take(0.6, 0.1);
  EXPECT_EQ(gain.curve().points, (std::vector{std::pair{0.1, 0.6}}));
}

TEST(Readiness, PlacesUnitsBySizeUntilTheyAreMeasured) {
  Readiness readiness;
  EXPECT_TRUE(readiness.buckets({0.1}).empty());
  readiness.set_units({1'000, 2'000, 1'000});
  auto buckets = readiness.buckets({0.1});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_NEAR(buckets[0].ready.value, 0.034, 1e-12);
  EXPECT_NEAR(buckets[1].ready.value, 0.034 + 0.066 / 3, 1e-12);
  EXPECT_EQ(buckets[2].ready.value, 0.1);
  readiness.take(0, 0.03);
  readiness.take(1, 0.004);
  readiness.take(2, 0.05);  // the last one has no lead
  buckets = readiness.buckets({0.1});
  EXPECT_NEAR(buckets[0].ready.value, 0.07, 1e-12);
  EXPECT_NEAR(buckets[1].ready.value, 0.096, 1e-12);
  EXPECT_EQ(buckets[2].ready.value, 0.1);
}

// Units become ready in the order of their exchange, and none before the step began.
TEST(Readiness, IsNeverOutOfOrder) {
  Readiness readiness;
  readiness.set_units({1'000, 1'000, 1'000});
  readiness.take(0, 0.01);
  readiness.take(1, 5);
  const auto buckets = readiness.buckets({0.1});
  EXPECT_NEAR(buckets[0].ready.value, 0.09, 1e-12);
  EXPECT_EQ(buckets[1].ready.value, buckets[0].ready.value);
}

TEST(Readiness, OtherUnitsAreOtherMeasurements) {
  Readiness readiness;
  readiness.set_units({1'000, 1'000});
  readiness.take(0, 0.01);
  readiness.set_units({1'000, 1'000});
  EXPECT_TRUE(readiness.leads()[0].known());
  readiness.set_units({2'000, 1'000, 500});
  EXPECT_FALSE(readiness.leads()[0].known());
  const std::vector<double> saved = {0.02};
  readiness.restore(saved);
  EXPECT_EQ(readiness.leads()[0].value(), 0.02);
  EXPECT_FALSE(readiness.leads()[1].known());
}

TEST(StepTimes, AreTheMedianUnderOnePlan) {
  StepTimes times;
  EXPECT_EQ(times.rounds(), 0);
  const plan::Plan often = plan::parse_plan("gradients dense");
  times.take(often, 9, 1);
  EXPECT_EQ(times.rounds(), 0) << "the first round also pays for the change of plan";
  for (const double seconds : {0.1, 5.0, 0.2}) times.take(often, seconds, 1);
  EXPECT_EQ(times.rounds(), 3);
  EXPECT_EQ(times.of_a_step().value, 0.2);
  const plan::Plan rare = plan::parse_plan("updates every=4 dense");
  times.take(rare, 0.4, 4);
  times.take(rare, 0.8, 4);
  EXPECT_EQ(times.plan(), rare);
  EXPECT_EQ(times.of_a_step().value, 0.2) << "of one training step";
  for (int i = 0; i < 100; ++i) times.take(rare, 4, 4);
  EXPECT_EQ(times.of_a_step().value, 1) << "old rounds are forgotten";
}

}  // namespace
}  // namespace pliant::observe
