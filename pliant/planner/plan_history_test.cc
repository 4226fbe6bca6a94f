// SPDX-License-Identifier: MIT
#include "pliant/planner/plan_history.h"

#include <gtest/gtest.h>

namespace pliant::planner {
namespace {

const plan::Plan kPlan;

TEST(PlanHistory, GivesARoundAndTheOneBefore) {
  PlanHistory history;
  for (std::uint64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(history.begin(round), PlanHistory::Begun::kNext);
    history.add({round, static_cast<std::int64_t>(10 * round), kPlan});
  }
  const auto first = history.take(0);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->previous);
  const auto third = history.take(2);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->round.step, 20);
  EXPECT_EQ(third->previous->number, 1U);
  EXPECT_FALSE(history.take(1)) << "records come once";
  EXPECT_FALSE(history.take(9)) << "such a round was never chosen";
  EXPECT_TRUE(history.is_last(3));
}

TEST(PlanHistory, IsForgottenWhenAnEarlierRoundBegins) {
  PlanHistory history;
  history.add({5, 50, kPlan});
  EXPECT_EQ(history.begin(4), PlanHistory::Begun::kAgain);
  EXPECT_FALSE(history.is_last(5));
  EXPECT_EQ(history.steps_of_last(), 0);
}

TEST(PlanHistory, CountsStepsOfThePlanThatRan) {
  PlanHistory history;
  history.add({0, 0, plan::parse_plan("updates every=4 dense")});
  EXPECT_EQ(history.steps_of_last(), 4);
  history.note_ran(0, kPlan);
  EXPECT_EQ(history.steps_of_last(), 1);
}

}  // namespace
}  // namespace pliant::planner
