// SPDX-License-Identifier: MIT
#include "pliant/control/plain_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pliant/control/decide.h"

namespace pliant::control {
namespace {

using testing::HasSubstr;

// Training whose steps take what the model predicts, and `overhead` seconds more for each exchange
// that is not plain DDP's.
class Training {
 public:
  Training(const char* link, double overhead, Options options = {})
      : options_(std::move(options)), overhead_(overhead) {
    inputs_.model.buckets = {{10'000'000, {0.1}}};
    inputs_.model.compute = {0.1};
    inputs_.model.world = plan::uniform_world(4, plan::parse_link(link));
  }

  Decision step() {
    Decision decision = decide(inputs_, options_, state_, book_);
    const plan::Plan& plan = decision.choice;
    const double predicted = model::predict(plan, inputs_.model, book_).step.value;
    const double seen = predicted + (is_plain(plan) ? 0 : overhead_ / plan.every);
    const bool same = inputs_.seen && inputs_.seen->plan == plan;
    inputs_.seen = SeenSteps{plan, {seen}, same ? inputs_.seen->rounds + 1 : 0};
    plain_ += is_plain(plan) ? 1 : 0;
    inputs_.step += plan.every;
    inputs_.changed = false;
    return decision;
  }
  Decision until(std::int64_t end) {
    Decision last = step();
    while (inputs_.step < end) last = step();
    return last;
  }

  Inputs inputs_;
  Options options_;
  State state_;
  model::PriceBook book_;
  int plain_ = 0;  // rounds under plain DDP

 private:
  double overhead_;
};

constexpr const char* kQuiteFast = "8gbit,100us";  // plain DDP is predicted within 1.5x of the best

TEST(PlainCheck, HiddenCostsBringPlainBack) {
  for (const Goal goal : kGoals) {
    Training training(kQuiteFast, 0.5, {.goal = goal});
    EXPECT_FALSE(is_plain(training.step().choice)) << "otherwise there is nothing to check";
    const Decision last = training.until(300);
    EXPECT_TRUE(is_plain(last.choice)) << to_string(goal) << ": " << to_string(last);
    EXPECT_GT(training.state_.plain_check.overhead, 0.2);
  }
}

TEST(PlainCheck, WhatIsFasterComesBack) {
  Training training(kQuiteFast, 0);
  EXPECT_FALSE(is_plain(training.until(900).choice));
  EXPECT_GE(training.plain_, PlainCheck::kRounds);
  EXPECT_LE(training.plain_, PlainCheck::kRounds + 2) << "the check is short, and once";
  EXPECT_NEAR(training.state_.plain_check.overhead, 0, 1e-6);
}

TEST(PlainCheck, PlainStepsThatWouldTakeLongAreNotTimed) {
  Training training("50mbit,10ms", 0);
  (void)training.until(2000);
  EXPECT_EQ(training.plain_, 0);
}

TEST(PlainCheck, PinnedPartsThatExcludePlainAreNotChecked) {
  Training training(kQuiteFast, 0.5,
                    {.candidates = {.pins = plan::parse_pins("gradients values=int8")}});
  (void)training.until(500);
  EXPECT_EQ(training.plain_, 0);
}

TEST(PlainCheck, EndsSoonIfPlainStepsTakeLong) {
  Training training(kQuiteFast, 0);
  for (int i = 0; i < 100 && !training.state_.plain_check.running(); ++i) (void)training.step();
  ASSERT_TRUE(training.state_.plain_check.running());
  training.plain_ = 0;
  training.inputs_.model.world = plan::uniform_world(4, plan::parse_link("20mbit,10ms"));
  training.inputs_.changed = true;
  (void)training.until(200);
  EXPECT_FALSE(training.state_.plain_check.running());
  EXPECT_LE(training.plain_, 4);
}

// Otherwise hysteresis would not protect the plan that comes back after a check.
TEST(PlainCheck, ItsOwnTimingsAreNoChangeOfTheNetwork) {
  Training training(kQuiteFast, 0);
  for (int i = 0; i < 100 && !training.state_.plain_check.running(); ++i) (void)training.step();
  ASSERT_TRUE(training.state_.plain_check.running());
  const plan::Plan compared = *training.state_.plain_check.compared;
  while (training.state_.plain_check.running()) {
    training.inputs_.changed = true;
    (void)training.step();
    EXPECT_FALSE(training.state_.hysteresis.unsettled(training.inputs_.step));
  }
  EXPECT_EQ(training.state_.in_force, compared);
  training.inputs_.seen->plan = plan::parse_plan("gradients dense");  // records come later
  training.inputs_.changed = true;
  (void)training.step();
  EXPECT_FALSE(training.state_.hysteresis.unsettled(training.inputs_.step));
  training.inputs_.changed = true;
  (void)training.step();
  EXPECT_TRUE(training.state_.hysteresis.unsettled(training.inputs_.step));
}

// What plain DDP's steps took is known when it was in force until just before.
TEST(PlainCheck, RemembersPlainStepsInsteadOfTakingThemAgain) {
  Training training(kQuiteFast, 0);
  (void)training.step();
  training.state_.in_force = plan::parse_plan("gradients dense");  // as if chosen on a fast link
  training.inputs_.seen = SeenSteps{plan::parse_plan("gradients dense"), {0.2}, 20};
  for (int i = 0; i < 200 && is_plain(*training.state_.in_force); ++i) {
    training.inputs_.changed = true;
    (void)training.step();
  }
  ASSERT_FALSE(is_plain(*training.state_.in_force));
  training.plain_ = 0;
  const std::int64_t switched = training.inputs_.step;
  while (training.inputs_.step < switched + 250) {
    (void)training.step();
    EXPECT_FALSE(training.state_.plain_check.running());
  }
  EXPECT_EQ(training.plain_, 0);
  EXPECT_GT(training.state_.plain_check.next, switched + 250) << "it counts as a check";
}

TEST(PlainCheck, OthersGetAnotherChance) {
  Training training(kQuiteFast, 0.5);
  (void)training.until(300);
  int others = 0;
  while (training.inputs_.step < 20'000) others += is_plain(training.step().choice) ? 0 : 1;
  EXPECT_GE(others, PlainCheck::kRounds) << "as many as another check needs";
  EXPECT_LE(others, 100);
}

TEST(PlainCheck, SaysWhatItSaw) {
  Training training(kQuiteFast, 0.5);
  std::string begins;
  std::string ends;
  for (int i = 0; i < 100 && ends.empty(); ++i) {
    const Decision decision = training.step();
    if (decision.origin.cause == Cause::kCheck) begins = decision.reason;
    if (decision.reason.starts_with("a step of plain DDP takes")) ends = decision.reason;
  }
  EXPECT_THAT(begins, HasSubstr("timing plain DDP for 9 rounds"));
  EXPECT_THAT(ends, HasSubstr("plain DDP is in force"));
}

TEST(PlainCheck, IsPartOfTheState) {
  Training training(kQuiteFast, 0.5);
  for (int i = 0; i < 100 && !training.state_.plain_check.running(); ++i) (void)training.step();
  EXPECT_EQ(parse_state(to_text(training.state_)), training.state_);
}

TEST(PlainCheck, StatesFromBeforeItLoad) {
  std::string text = to_text(State{});
  text.resize(text.find("compared "));
  EXPECT_EQ(parse_state(text), State{});
}

}  // namespace
}  // namespace pliant::control
