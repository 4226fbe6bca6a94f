// SPDX-License-Identifier: MIT
#include "pliant/control/decide.h"

#include <gtest/gtest.h>

#include "pliant/common/errors.h"
#include "tests/support/matches.h"

namespace pliant::control {
namespace {

// Training that knows the true link and decides at every step.
class Drive {
 public:
  explicit Drive(const char* link, Options options = {}, int ranks = 8, double compute = 0.1,
                 std::size_t length = 10'000'000)
      : options_(std::move(options)) {
    inputs_.model.buckets = {{length, {compute}}};
    inputs_.model.compute = {compute};
    ranks_ = ranks;
    set(link);
  }
  void set(const char* link) {
    inputs_.model.world = plan::uniform_world(ranks_, plan::parse_link(link));
  }
  Decision step() {
    Decision decision = decide(inputs_, options_, state_, book_);
    ++inputs_.step;
    inputs_.changed = false;
    return decision;
  }
  // Until step `end`; the last decision, and how many changed the plan.
  Decision until(std::int64_t end) {
    Decision last;
    changes = evaluations = trials = 0;
    while (inputs_.step < end) {
      last = step();
      changes += last.changed ? 1 : 0;
      evaluations += last.evaluated ? 1 : 0;
      trials += last.trial ? 1 : 0;
    }
    return last;
  }

  Inputs inputs_;
  Options options_;
  State state_;
  model::PriceBook book_;
  int ranks_ = 8;
  int changes = 0, evaluations = 0, trials = 0;
};

Options pinned(const char* pins) { return {.candidates = {.pins = plan::parse_pins(pins)}}; }

TEST(Decide, FastNetworksStayDense) {
  Drive drive("100gbit,10us", {}, 8, 0.1, 1'000'000);
  const Decision decision = drive.until(500);
  EXPECT_EQ(decision.choice.scheme, plan::Scheme::kDense) << to_string(decision);
}

TEST(Decide, SlowNetworksEndUpSparse) {
  Drive drive("50mbit,20ms");
  const Decision decision = drive.until(500);
  EXPECT_LE(decision.choice.density, 0.1) << to_string(decision);
  const auto speed = [&](const plan::Plan& plan) {
    return model::predict(plan, drive.inputs_.model, drive.book_).speed();
  };
  EXPECT_GE(speed(decision.choice) * Options{}.better, speed(*drive.state_.goal))
      << "the goal, or not worth a switch from it";
}

TEST(Decide, WarmUpIsDenserAndBounded) {
  Drive drive("50mbit,20ms", pinned("gradients"));
  const Decision first = drive.step();
  EXPECT_TRUE(first.changed);
  EXPECT_GE(first.choice.density, drive.state_.goal->density);
  const auto goal = model::predict(*drive.state_.goal, drive.inputs_.model, drive.book_);
  EXPECT_LE(first.chosen->step.value, 3 * goal.step.value);
  EXPECT_EQ(drive.until(99).choice, first.choice);
}

// Hysteresis does not protect the warm-up's plan: the goal is in force at once, however little
// better.
TEST(Decide, WarmUpEndsWithTheGoal) {
  for (const char* link : {"10gbit,100us", "1gbit,1ms", "200mbit,1ms", "100mbit,5ms"}) {
    Drive drive(link, pinned("updates"), 4, 0.06, 500'000);
    drive.inputs_.model.lanes = 2;
    (void)drive.until(100);
    const Decision decision = drive.step();
    const auto speed = [&](const plan::Plan& plan) {
      return model::predict(plan, drive.inputs_.model, drive.book_).speed();
    };
    ASSERT_EQ(decision.step, 100);
    EXPECT_GE(speed(decision.choice), 0.9999 * speed(*drive.state_.goal))
        << link << ": " << to_string(decision);
  }
}

// Early steps are the noisiest: a long horizon comes only where a shorter one would take too long.
TEST(Decide, WarmUpTakesShortHorizonsWhereThereIsTime) {
  for (const bool adam : {false, true}) {
    Drive drive("100mbit,5ms", pinned("updates"), 4, 0.1, 1'000'000);
    drive.inputs_.model.adam = adam;
    const Decision first = drive.step();
    EXPECT_EQ(first.choice.every, 1) << to_string(first);
    EXPECT_EQ(first.choice.late, 0) << to_string(first);
    EXPECT_GT(model::age_of(*drive.state_.goal), 0) << "else there is nothing to see";
  }
}

// The same quality after the same steps: of all plans that are worth enough, the shortest step.
TEST(Decide, GoalStepsTakesNoPlanThatIsWorthLess) {
  for (const char* link : {"5mbit,5ms", "20mbit,1ms", "100mbit,20ms", "1gbit,1ms"}) {
    for (const bool adam : {false, true}) {
      Drive drive(link, {}, 4, 0.1, 1'000'000);
      drive.inputs_.model.adam = adam;
      drive.inputs_.model.least_worth = least_worth(drive.options_);
      drive.inputs_.model.efficiency.at_end = true;
      while (drive.inputs_.step < 300) {
        const Decision decision = drive.step();
        const auto chosen = model::predict(decision.choice, drive.inputs_.model, drive.book_);
        ASSERT_GE(chosen.efficiency, 0.97) << link << ": " << to_string(decision);
      }
      const auto plain = model::predict({}, drive.inputs_.model, drive.book_);
      const auto chosen = model::predict(*drive.state_.in_force, drive.inputs_.model, drive.book_);
      EXPECT_LE(chosen.step.value, plain.step.value) << link;
    }
  }
}

TEST(Decide, GoalStepsObeysPinsThatAreWorthLess) {
  Drive drive("20mbit,5ms", pinned("updates every=8 late=4"), 4, 0.1, 1'000'000);
  drive.inputs_.model.least_worth = 0.97;
  drive.inputs_.model.efficiency.at_end = true;
  const Decision decision = drive.until(300);
  EXPECT_EQ(decision.choice.every, 8) << to_string(decision);
  EXPECT_LT(decision.chosen ? decision.chosen->efficiency : 0, 0.97);
}

// If their step takes no more than 3x the goal's, and if gradients are allowed.
TEST(Decide, WithAdamWarmUpAveragesGradients) {
  for (const char* link : {"300mbit,1ms", "1mbit,300ms"}) {
    for (const char* pins : {"auto", "updates"}) {
      Drive drive(link, pinned(pins), 8, 0.1, 1'000'000);
      drive.inputs_.model.adam = true;
      const Decision first = drive.step();
      const bool averages =
          first.choice.kind == plan::Kind::kGradients && first.choice.density == 1;
      EXPECT_EQ(averages,
                std::string_view(link) == "300mbit,1ms" && std::string_view(pins) == "auto")
          << to_string(first);
      EXPECT_EQ(drive.until(200).choice.kind, plan::Kind::kUpdates);
    }
  }
}

// Rungs on the way may be no better by themselves: the ramp must not end on one of them.
TEST(Decide, TheRampEndsWhereTheGoalIs) {
  for (const char* link : {"32.06284mbit,416.015us", "48.75568mbit,350.54us", "99.69962mbit,1197us",
                           "20mbit,5ms", "300mbit,100us"}) {
    for (const double compute : {0.005, 0.0117, 0.05}) {
      Drive drive(link, {}, 4, compute, 725'000);
      drive.inputs_.model.lanes = 0;
      (void)drive.until(700);
      const auto speed = [&](const plan::Plan& plan) {
        return model::predict(plan, drive.inputs_.model, drive.book_).speed();
      };
      EXPECT_LE(speed(*drive.state_.goal), 1.05001 * speed(*drive.state_.in_force))
          << link << ", compute " << compute;
    }
  }
}

// Shortly after a rise, density may fall back to its previous value, or as far as the ramp allows.
TEST(Decide, ARiseDoesNotDelayTheRamp) {
  Drive drive("10mbit,1ms", pinned("updates srs every=1 late=0"), 8, 0.1, 10'000'000);
  drive.inputs_.step = 100;
  drive.state_.in_force =
      plan::parse_plan("updates srs scatter=direct every=1 density=50% values=int4");
  drive.state_.ramp.denser = 90;
  drive.state_.ramp.before_denser = 0.2;
  EXPECT_EQ(drive.until(140).choice.density, 0.1);
}

// From dense to 10 %, then a rung of the ladder every 50 steps; never sparser by more.
TEST(Decide, GettingSparserIsRamped) {
  Drive drive("10mbit,1ms", pinned("updates srs every=1 late=0"), 8, 0.1, 10'000'000);
  drive.options_.warm_up_slowdown = 1e9;  // dense until the end of the warm-up
  double last = drive.until(100).choice.density;
  EXPECT_EQ(last, 1);
  std::int64_t last_drop = -1;
  int drops = 0;
  while (drive.inputs_.step < 400) {
    const Decision decision = drive.step();
    const double density = decision.choice.density;
    if (density < last) {
      EXPECT_GE(density * 1.000001, last == 1 ? 0.1 : last / 3.4);
      if (last_drop >= 0) EXPECT_GE(decision.step - last_drop, 50);
      last_drop = decision.step;
      ++drops;
    }
    last = density;
  }
  EXPECT_GE(drops, 3);
  EXPECT_EQ(last, drive.state_.goal->density);
}

TEST(Decide, GettingDenserIsAtOnce) {
  Drive drive("10mbit,1ms", pinned("updates union every=1 late=0"));
  EXPECT_LT(drive.until(400).choice.density, 0.02);
  drive.set("100gbit,10us");
  drive.inputs_.changed = true;
  const Decision next = drive.step();
  EXPECT_TRUE(next.changed);
  EXPECT_GE(next.choice.density, 0.1) << to_string(next);  // enough is updated then
}

TEST(Decide, ASmallGainIsNoReasonToSwitch) {
  Drive drive("100mbit,5ms");
  const plan::Plan settled = drive.until(500).choice;
  drive.set("97mbit,5.1ms");
  EXPECT_EQ(drive.until(600).choice, settled);
  EXPECT_EQ(drive.changes, 0);
}

TEST(Decide, NothingIsEvaluatedWhileNothingMoves) {
  Drive drive("100mbit,5ms");
  drive.options_.stale_steps = 1'000'000;
  (void)drive.until(500);
  (void)drive.until(1000);
  EXPECT_EQ(drive.evaluations, 0);
  const Decision decision = drive.step();
  EXPECT_EQ(decision.reason, "no input has moved since the last evaluation");
  EXPECT_FALSE(decision.changed);
}

// A better plan without an alarm waits until it has been better three times; with an alarm it does
// not.
TEST(Decide, AChallengerMustLast) {
  Drive slow("100mbit,5ms");
  (void)slow.until(500);
  slow.options_.better_at_once = 1e9;
  slow.set("1gbit,5ms");
  int steps = 1;
  while (!slow.step().changed) ++steps;
  EXPECT_EQ(steps, 3);
  Drive alarmed("100mbit,5ms");
  (void)alarmed.until(500);
  alarmed.set("1gbit,5ms");
  alarmed.inputs_.changed = true;
  EXPECT_TRUE(alarmed.step().changed);
}

TEST(Decide, AChangeOfKindMustRepayItsFlush) {
  Drive drive("100mbit,5ms", pinned("gradients"));
  (void)drive.until(500);
  drive.options_.candidates.pins = {};
  drive.inputs_.changed = true;
  drive.options_.repay_steps = 0;
  EXPECT_EQ(drive.step().choice.kind, plan::Kind::kGradients);
  drive.options_.repay_steps = 200;
  drive.inputs_.changed = true;
  EXPECT_EQ(drive.step().choice.kind, plan::Kind::kUpdates);
}

TEST(Decide, PinnedPartsStayPinned) {
  Drive drive("10mbit,50ms", pinned("shared bcast=double-tree values=int8 density=5%"));
  for (const char* link : {"10mbit,50ms", "10gbit,10us", "1gbit,5ms"}) {
    drive.set(link);
    const Decision decision = drive.until(drive.inputs_.step + 100);
    EXPECT_TRUE(matches(decision.choice, drive.options_.candidates.pins)) << to_string(decision);
  }
}

TEST(Decide, KneeTakesGradientPlans) {
  Drive drive("100mbit,5ms", {.policy = Policy::kKnee});
  EXPECT_EQ(drive.until(500).choice.kind, plan::Kind::kGradients);
}

// Corrections that nobody has seen for long are refreshed, by at most one step in a hundred, and
// the plan comes back.
TEST(Decide, TrialsAreRareShortAndCheap) {
  Drive drive("200mbit,2ms", pinned("gradients"));
  const plan::Plan settled = drive.until(1000).choice;
  Decision trial;
  int trials = 0;
  const auto in_force = [&] {
    return model::predict(settled, drive.inputs_.model, drive.book_).speed();
  };
  while (drive.inputs_.step < 3000) {
    const Decision decision = drive.step();
    if (decision.trial) {
      ++trials;
      EXPECT_GE(decision.chosen->speed(), in_force() / 1.2);
      EXPECT_EQ(drive.step().choice, settled);
    }
  }
  EXPECT_GE(trials, 1);
  EXPECT_LE(trials, 20);
}

TEST(Decide, WhatCannotBePredictedChangesNothing) {
  Drive drive("100mbit,5ms");
  const plan::Plan settled = drive.until(300).choice;
  drive.inputs_.model.compute = {-1};
  const State before = drive.state_;
  const Decision decision = drive.step();
  EXPECT_EQ(decision.choice, settled);
  EXPECT_FALSE(decision.changed);
  EXPECT_EQ(
      decision.reason,
      "the plan in force stays, because predictions failed: predict: a step computes for -1 s");
  State after = drive.state_;
  after.epoch = before.epoch;
  EXPECT_EQ(after, before);
  Drive fresh("100mbit,5ms");
  fresh.inputs_.model.compute = {0};
  EXPECT_EQ(fresh.step().choice, plan::Plan{});
}

TEST(Decide, TheSameInputsGiveTheSameDecisionOnEveryRank) {
  Drive a("100mbit,5ms");
  Drive b("100mbit,5ms");
  for (int i = 0; i < 300; ++i) {
    if (i == 150) a.set("5mbit,50ms"), b.set("5mbit,50ms");
    const Decision one = a.step();
    const Decision two = b.step();
    ASSERT_EQ(to_string(one, true), to_string(two, true));
    ASSERT_EQ(one.inputs_digest, two.inputs_digest);
    b.state_ = parse_state(to_text(b.state_));  // and through a checkpoint
    ASSERT_EQ(a.state_, b.state_);
  }
}

// A text as earlier versions wrote it.
TEST(State, ReadsASavedText) {
  const State state = parse_state(
      "epoch 7\nin_force updates every=4 late=1 dense reduce=backend\ngoal none\nswitched 3\n"
      "sparser 4\ndenser 5\nbefore_denser 0.25\nunsettled_until 6\nunsettled_for 2\n"
      "challenger gradients dense\nconfirmed 1\nafter_trial none\nnext_trial 8\n"
      "marks 1 2.5 -1\nevaluated 9\n");
  EXPECT_EQ(state.epoch, 7U);
  EXPECT_EQ(state.in_force, plan::parse_plan("updates every=4 late=1 dense"));
  EXPECT_FALSE(state.goal);
  EXPECT_EQ(state.ramp, (Ramp{.sparser = 4, .denser = 5, .before_denser = 0.25}));
  EXPECT_EQ(state.hysteresis, (Hysteresis{.switched = 3,
                                          .unsettled_until = 6,
                                          .unsettled_for = 2,
                                          .challenger = plan::Plan{},
                                          .confirmed = 1}));
  EXPECT_EQ(state.trials, (Trials{.next_trial = 8}));
  EXPECT_EQ(state.last, (LastEvaluation{.numbers = {1, 2.5, -1}, .step = 9}));
}

TEST(State, RefusesTextThatIsNotOne) {
  const std::string good = to_text(State{});
  EXPECT_EQ(parse_state(good), State{});
  EXPECT_THROW((void)parse_state(""), InputError);
  EXPECT_THROW((void)parse_state(good + "more 1\n"), InputError);
  EXPECT_THROW((void)parse_state(good + good), InputError);
  std::string bad = good;
  bad.replace(bad.find("epoch 0"), 7, "epoch x");
  EXPECT_THROW((void)parse_state(bad), InputError);
}

}  // namespace
}  // namespace pliant::control
