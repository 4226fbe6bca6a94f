// SPDX-License-Identifier: MIT
#include "pliant/planner/policy.h"

#include <gtest/gtest.h>

#include "tests/support/matches.h"

namespace pliant::planner {
namespace {

TEST(FixedPolicy, KeepsThePinnedPlan) {
  const auto pins = plan::parse_pins("gradients union density=3% values=int8");
  FixedPolicy policy(pins, WarmUp::kNone, 0);
  for (std::uint64_t step = 0; step < 5; ++step)
    EXPECT_TRUE(plan::matches(policy.choose(step).plan, pins));
}

TEST(FixedPolicy, WithNothingPinnedIsDense) {
  EXPECT_EQ(FixedPolicy({}, WarmUp::kNone, 0).choose(0).plan, plan::Plan{});
}

TEST(FixedPolicy, FillsInADensityWhereOnlyTheSchemeIsPinned) {
  EXPECT_EQ(FixedPolicy(plan::parse_pins("srs"), WarmUp::kNone, 0).choose(0).plan.density, 0.01);
}

TEST(FixedPolicy, WarmsUpDense) {
  FixedPolicy policy(plan::parse_pins("gradients srs density=1%"), WarmUp::kDense, 10);
  EXPECT_EQ(policy.choose(9).plan.scheme, plan::Scheme::kDense);
  EXPECT_EQ(policy.choose(10).plan.scheme, plan::Scheme::kSrs);
}

TEST(FixedPolicy, RampsDownNeverUp) {
  FixedPolicy policy(plan::parse_pins("gradients srs density=1%"), WarmUp::kRamp, 60);
  double last = 1;
  for (std::uint64_t step = 0; step <= 60; ++step) {
    const double density = policy.choose(step).plan.density;
    EXPECT_LE(density, last);
    EXPECT_GE(density * 3.4, last) << "no rung is far from the one before";
    last = density;
  }
  EXPECT_EQ(policy.choose(0).plan.density, 1);
  EXPECT_EQ(last, 0.01);
}

}  // namespace
}  // namespace pliant::planner
