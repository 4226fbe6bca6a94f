// SPDX-License-Identifier: MIT
#include "pliant/planner/rounds.h"

#include <gtest/gtest.h>

namespace pliant::planner {
namespace {

const plan::Plan kPlan;

TEST(Rounds, GiveARoundAndTheOneBefore) {
  Rounds rounds;
  for (std::uint64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(rounds.begin(round), Rounds::Begun::kNext);
    rounds.add({round, static_cast<std::int64_t>(10 * round), kPlan});
  }
  const auto first = rounds.take(0);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->previous);
  const auto third = rounds.take(2);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->round.step, 20);
  EXPECT_EQ(third->previous->number, 1U);
  EXPECT_FALSE(rounds.take(1)) << "records come once";
  EXPECT_FALSE(rounds.take(9)) << "such a round was never chosen";
  EXPECT_TRUE(rounds.is_last(3));
}

TEST(Rounds, AreForgottenWhenAnEarlierOneBegins) {
  Rounds rounds;
  rounds.add({5, 50, kPlan});
  EXPECT_EQ(rounds.begin(4), Rounds::Begun::kAgain);
  EXPECT_FALSE(rounds.is_last(5));
  EXPECT_EQ(rounds.steps_of_last(), 0);
}

TEST(Rounds, CountStepsOfThePlanThatRan) {
  Rounds rounds;
  rounds.add({0, 0, plan::parse_plan("updates every=4 dense")});
  EXPECT_EQ(rounds.steps_of_last(), 4);
  rounds.note_ran(0, kPlan);
  EXPECT_EQ(rounds.steps_of_last(), 1);
}

}  // namespace
}  // namespace pliant::planner
