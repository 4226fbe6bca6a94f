// SPDX-License-Identifier: MIT
#include "pliant/model/predict.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <random>

#include "pliant/common/errors.h"
#include "pliant/model/exchange.h"
#include "pliant/plan/candidates.h"
#include "pliant/plan/density.h"
#include "tests/arbitrary_plan.h"

namespace pliant::model {
namespace {

using plan::parse_plan;

// What is hidden is free here, so that steps can be told by hand.
Inputs even(int ranks, const char* link, double compute, std::size_t length, int buckets = 1) {
  Inputs inputs{
      .world = plan::uniform_world(ranks, plan::parse_link(link)), .compute = {compute}, .drag = 0};
  for (int b = 1; b <= buckets; ++b) {
    inputs.buckets.push_back({length / static_cast<std::size_t>(buckets), {compute * b / buckets}});
  }
  return inputs;
}

plan::CostTable some_costs() {
  plan::CostTable costs;
  for (const auto operation :
       {plan::Operation::kAccumulateSelect, plan::Operation::kProgressSelect})
    costs.set(operation, {0.5, 2});
  costs.set(plan::Operation::kRiceEncode, {0, 3});
  costs.set(plan::Operation::kRiceDecode, {0, 4});
  costs.set(plan::Operation::kScatterAdd, {0, 1});
  return costs;
}

double step(const char* text, const Inputs& inputs) {
  PriceBook book;
  return predict(parse_plan(text), inputs, book).step.value;
}

// Nothing overlaps: the step is compute plus the price.
TEST(Efficiency, GoalStepsCountsWhatKeepsQualityAlike) {
  EXPECT_EQ(counted(0.5, 0), 0.5) << "goal time";
  EXPECT_EQ(counted(0.97, 0.97), 1);
  EXPECT_EQ(counted(1, 0.97), 1);
  EXPECT_LT(counted(0.96, 0.97), 1e-3);
  EXPECT_GT(counted(0.96, 0.97), counted(0.5, 0.97));
}

// By the loss at the end of a schedule: all entries in every step cost nothing, horizon and
// lateness cost at once.
TEST(Efficiency, AtTheEndOfASchedule) {
  const EfficiencyOptions options{.at_end = true};
  const auto worth = [&](const char* text, bool adam) {
    const plan::Plan plan = parse_plan(text);
    return efficiency(plan, updated_fraction(plan, 4, std::nullopt), adam, options);
  };
  for (const bool adam : {false, true}) {
    EXPECT_EQ(worth("gradients dense", adam), 1);
    EXPECT_EQ(worth("gradients dense values=int8", adam), 1);
    EXPECT_LT(worth("updates every=2 late=0 dense", adam),
              worth("updates every=1 late=0 dense", adam));
    EXPECT_LT(worth("updates every=4 late=0 dense", adam), 0.93);
    EXPECT_LT(worth("updates every=4 late=2 dense", adam),
              worth("updates every=4 late=0 dense", adam));
    EXPECT_LT(worth("gradients union density=1%", adam), 0.9);
  }
  EXPECT_EQ(worth("updates every=1 late=0 dense values=int4", false), 1) << "SGD commutes with it";
  EXPECT_LT(worth("updates every=1 late=0 dense", true), 0.97) << "every rank's own Adam";
}

TEST(Predict, SerialStepsAddUp) {
  Inputs inputs = even(8, "100mbit,1ms", 0.1, 1'000'000, 4);
  inputs.lanes = 0;
  const auto plan = parse_plan("gradients dense reduce=ring fuse=all");
  const double price = price_exchange(plan, 1'000'000, 1'000'000, inputs.world).value;
  EXPECT_NEAR(step("gradients dense reduce=ring fuse=all", inputs), 0.1 + price, 1e-9);
  const double quarter = price_exchange(plan, 250'000, 250'000, inputs.world).value;
  EXPECT_NEAR(step("gradients dense reduce=ring fuse=bucket", inputs), 0.1 + 4 * quarter, 1e-9);
}

// Four buckets, ready at a quarter of compute each. Where the wire is faster than backward only the
// last one shows; where it is slower the wire never rests after the first.
TEST(Predict, BucketsOverlapWithBackward) {
  const auto plan = parse_plan("gradients dense reduce=ring fuse=bucket");
  Inputs fast = even(4, "10gbit,10us", 0.1, 1'000'000, 4);
  const double quarter = price_exchange(plan, 250'000, 250'000, fast.world).value;
  EXPECT_NEAR(step("gradients dense reduce=ring fuse=bucket", fast), 0.1 + quarter, 1e-9);
  Inputs slow = even(4, "100mbit,10us", 0.1, 1'000'000, 4);
  const double slow_quarter = price_exchange(plan, 250'000, 250'000, slow.world).value;
  EXPECT_NEAR(step("gradients dense reduce=ring fuse=bucket", slow), 0.025 + 4 * slow_quarter,
              1e-9);
}

TEST(Predict, FusionTradesOverlapForLatency) {
  const Inputs far = even(8, "10gbit,20ms", 0.1, 1'000'000, 8);
  EXPECT_LT(step("gradients dense fuse=all", far), step("gradients dense fuse=2", far));
  EXPECT_LT(step("gradients dense fuse=2", far), step("gradients dense fuse=bucket", far));
  const Inputs narrow = even(8, "500mbit,10us", 0.1, 1'000'000, 8);
  EXPECT_GT(step("gradients dense fuse=all", narrow), step("gradients dense fuse=2", narrow));
  EXPECT_GT(step("gradients dense fuse=2", narrow), step("gradients dense fuse=bucket", narrow));
}

TEST(Predict, TwoLanesPrepareAUnitWhileAnotherTravels) {
  Inputs inputs = even(8, "1gbit,1ms", 0.01, 8'000'000, 8);
  inputs.costs = some_costs();
  const double one = step("gradients union density=1%", inputs);
  inputs.lanes = 2;
  EXPECT_LT(step("gradients union density=1%", inputs), one);
}

TEST(Predict, UnitsCoverTheModelAndWaitForTheirLastBucket) {
  Inputs inputs = even(2, "1gbit,1ms", 1, 0, 0);
  inputs.buckets = {{100, {0.2}}, {300, {0.5}}, {200, {0.9}}};
  EXPECT_EQ(groups(parse_plan("gradients dense fuse=all"), inputs),
            (std::vector<Bucket>{{600, {0.9}}}));
  EXPECT_EQ(groups(parse_plan("gradients dense fuse=2"), inputs),
            (std::vector<Bucket>{{400, {0.5}}, {200, {0.9}}}));
  EXPECT_EQ(groups(parse_plan("gradients dense fuse=bucket"), inputs), inputs.buckets);
  EXPECT_EQ(groups(parse_plan("updates dense"), inputs), (std::vector<Bucket>{{600, {0.9}}}));
}

// every divides the exchange, late hides up to d steps of compute, and no more than the lanes
// carry.
TEST(Predict, UpdatesAreSpreadAndHidden) {
  const Inputs inputs = even(8, "100mbit,5ms", 0.05, 1'000'000);
  PriceBook book;
  const double exchange =
      predict(parse_plan("updates dense"), inputs, book).exchange.value;  // 0.59 s
  EXPECT_NEAR(step("updates dense", inputs), 0.05 + exchange, 1e-9);
  EXPECT_NEAR(step("updates every=4 dense", inputs), 0.05 + exchange / 4, 1e-9);
  EXPECT_NEAR(step("updates every=4 late=2 dense", inputs),
              0.05 + (exchange - (2 - kUsualDrift) * 0.05) / 4, 1e-9);
  EXPECT_NEAR(step("updates every=16 late=16 dense", inputs), 0.05, 1e-9);
  const double sparse =
      predict(parse_plan("updates union density=0.1%"), inputs, book).exchange.value;  // 0.02 s
  EXPECT_LT(sparse, 0.05);
  EXPECT_NEAR(step("updates late=1 union density=0.1%", inputs), 0.05, 1e-9);
}

// Of what an exchange takes beyond what it adds to a step, a share counts all the same; with
// gradients and with updates.
TEST(Predict, WhatIsHiddenIsNotFree) {
  for (const char* plan : {"gradients dense reduce=ring fuse=bucket",
                           "updates every=2 late=1 dense", "updates every=1 late=4 dense"}) {
    Inputs inputs = even(4, "1gbit,1ms", 0.1, 1'000'000, 4);
    PriceBook book;
    const Prediction free = predict(parse_plan(plan), inputs, book);
    const double hidden = free.exchange.value / parse_plan(plan).every - free.exposed.value;
    ASSERT_GT(hidden, 0) << plan;
    inputs.drag = 0.1;
    EXPECT_NEAR(step(plan, inputs), free.step.value + 0.1 * hidden, 1e-9) << plan;
    inputs.lanes = 0;
    const double serial = step(plan, inputs);
    inputs.drag = 0;
    EXPECT_EQ(step(plan, inputs), serial) << plan << ": where nothing overlaps nothing is hidden";
  }
}

// Lanes do not help: the time that an exchange takes would tell of the others, so one travels at a
// time.
TEST(Predict, ExchangesOfUpdatesTakeTurns) {
  Inputs far = even(8, "10gbit,100ms", 0.05, 100'000);
  const char* late = "updates late=4 union density=1%";
  PriceBook book;
  const double exchange = predict(parse_plan(late), far, book).exchange.value;  // 0.3 s
  EXPECT_NEAR(step(late, far), exchange + kUsualDrift * 0.05, 0.01 * exchange);
  far.lanes = 4;
  EXPECT_NEAR(step(late, far), exchange + kUsualDrift * 0.05, 0.01 * exchange);
  EXPECT_NEAR(step("updates every=4 late=4 union density=1%", far),
              0.05 + (exchange - (4 - kUsualDrift) * 0.05) / 4, 0.01 * exchange);
}

// What is learnt about a step's exchanges applies to all of them: a bucket alone would be of
// another size class than their sum.
TEST(Predict, CorrectsAStepsExchangesAlikeByTheLargest) {
  PriceBook book;
  Inputs inputs = even(4, "1gbit,100us", 0.01, 2'000'000, 4);
  inputs.buckets.front().length = 1000;
  const auto plan = parse_plan("gradients dense reduce=ring fuse=bucket");
  const auto [weight, correction] = weigh_step(plan, inputs, book);
  const Seconds wire = predict(plan, inputs, book).wire;
  EXPECT_NEAR(wire.value, weight.over(inputs.world.links.front()).value, 1e-12);
  EXPECT_EQ(correction, correction_index(plan, book.weigh(plan, 500'000, 500'000, 4).bytes));
  EXPECT_NE(correction, correction_index(plan, weight.bytes));
  inputs.corrections.factors.at(correction) = 2;
  EXPECT_NEAR(predict(plan, inputs, book).wire.value, 2 * wire.value, 1e-12);
}

TEST(Predict, BuffersTravelBesideUpdates) {
  PriceBook book;
  const Inputs without = even(4, "100mbit,10ms", 0.05, 1'000'000);
  Inputs with = without;
  with.buffers = 512;
  const auto updates = parse_plan("updates every=2 late=0 union density=1%");
  const double apart = predict(parse_plan("gradients dense reduce=recursive-doubling"),
                               even(4, "100mbit,10ms", 0.05, 512), book)
                           .wire.value;
  EXPECT_NEAR(predict(updates, with, book).wire.value - predict(updates, without, book).wire.value,
              apart, 1e-12);
  EXPECT_NEAR(weigh_step(updates, with, book).weight.messages -
                  weigh_step(updates, without, book).weight.messages,
              book.weigh(plan::beside(updates, 512), 512, 512, 4).messages, 1e-12);
  const auto gradients = parse_plan("gradients union density=1%");
  EXPECT_EQ(predict(gradients, with, book).wire, predict(gradients, without, book).wire);
}

TEST(Predict, EfficiencyIsThatOfTheOptions) {
  const Inputs inputs = even(8, "1gbit,1ms", 0.1, 1'000'000);
  PriceBook book;
  const auto worth = [&](const char* text, bool adam) {
    Inputs with = inputs;
    with.adam = adam;
    return predict(parse_plan(text), with, book).efficiency;
  };
  EXPECT_EQ(worth("gradients dense", false), 1);
  EXPECT_EQ(worth("updates dense", true), 1);
  EXPECT_NEAR(worth("gradients srs density=1%", false), std::pow(0.01 / 0.2, 0.2), 1e-12);
  EXPECT_EQ(worth("gradients srs density=50%", false), 1);
  EXPECT_NEAR(worth("updates shared density=1%", false), 0.85 * std::pow(0.01 / 0.2, 0.1), 1e-12);
  EXPECT_NEAR(worth("updates every=4 late=2 dense", false), 1 / (1 + std::pow(3.5 / 14, 2)), 1e-12);
  EXPECT_EQ(worth("updates every=8 dense", false), worth("updates every=4 late=2 dense", false));
  EXPECT_NEAR(worth("updates every=8 late=1 dense", true), 1 / (1 + std::pow(4.5 / 11, 2)), 1e-12);
  EXPECT_NEAR(worth("gradients srs density=50%", true), std::pow(0.5, 0.3), 1e-12);
  EXPECT_NEAR(worth("gradients srs density=100% values=int4", true), std::pow(0.6, 0.3), 1e-12);
  EXPECT_EQ(worth("gradients srs density=50% values=int4", true),
            worth("gradients srs density=50% values=int8", true));
  EXPECT_NEAR(worth("updates srs density=10%", true), std::pow(0.1, 0.3), 1e-12);
  EXPECT_NEAR(worth("updates every=4 srs density=10%", true),
              std::pow(0.1, 0.3 / 16) / (1 + std::pow(1.5 / 11, 2)), 1e-12);
}

TEST(UnionFraction, LiesBetweenOneRanksAndAllRanks) {
  EXPECT_TRUE(rc::check([] {
    const double density =
        *rc::gen::map(rc::gen::inRange(1, 1000), [](int i) { return i / 1000.0; });
    const int size = *rc::gen::inRange(1, 65);
    const double overlap = *rc::gen::map(rc::gen::inRange(0, 101), [](int i) { return i / 100.0; });
    const double fraction = union_fraction(density, size, overlap);
    RC_ASSERT(fraction >= density * (1 - 1e-12) &&
              fraction <= std::min(1.0, size * density) * (1 + 1e-12));
    if (size > 1 && density < 0.9)
      RC_ASSERT(std::abs(overlap_of(fraction, density, size) - overlap) < 1e-6);
  }));
}

TEST(GainCurve, RisesFromPointToPointUpToOne) {
  for (const GainCurve& curve :
       {GainCurve{}, GainCurve{{{0.01, 0.4}, {0.1, 0.8}}}, GainCurve{{{1.0, 1.0}}}}) {
    double last = 0;
    for (const double density : {0.0001, 0.001, 0.01, 0.02, 0.1, 0.5, 1.0}) {
      EXPECT_GE(gain_at(curve, density), last);
      last = gain_at(curve, density);
    }
    EXPECT_EQ(last, 1);
  }
  EXPECT_NEAR(gain_at({{{0.01, 0.4}, {0.1, 0.8}}}, std::sqrt(0.001)), 0.6, 1e-9);
}

// Whatever the plan: a step is no shorter than its compute, overlap never hurts, a better link
// neither, and bytes are those that the stages send.
TEST(Predict, HoldsForEveryPlan) {
  PriceBook book;
  EXPECT_TRUE(rc::check([&book] {
    auto plan = *rc::gen::arbitrary<plan::Plan>();
    plan.every = std::min(plan.every, 16);
    plan.segments = std::min(plan.segments, 12);
    const int size = *rc::gen::element(2, 3, 4, 8);
    Inputs inputs = even(size, "100mbit,1ms", 0.05, 500'000, *rc::gen::inRange(1, 5));
    inputs.costs = some_costs();
    const Prediction overlapped = predict(plan, inputs, book);
    RC_ASSERT(overlapped.step.value >= 0.05 * (1 - 1e-9));
    RC_ASSERT(overlapped.efficiency > 0 && overlapped.efficiency <= 1);
    RC_ASSERT(overlapped.bytes > 0);
    Inputs serial = inputs;
    serial.lanes = 0;
    RC_ASSERT(predict(plan, serial, book).step.value >= overlapped.step.value * (1 - 1e-9));
    Inputs better = inputs;
    better.world = plan::uniform_world(size, plan::parse_link("1gbit,100us"));
    RC_ASSERT(predict(plan, better, book).step.value <= overlapped.step.value * (1 + 1e-9));
    RC_ASSERT(predict(plan, inputs, book).step == overlapped.step);
  }));
}

TEST(PredictAll, AgreesWithPlayingEverythingOnTheBestPlans) {
  PriceBook book;
  for (const int size : {5, 13}) {
    for (const char* link : {"10mbit,5ms", "1gbit,1ms"}) {
      const Inputs inputs = even(size, link, 0.05, 2'000'000, 4);
      const auto plans =
          plan::candidates(size, {.pins = plan::parse_pins("gradients fuse=all values=f16")});
      double best_played = 0;
      for (const auto& plan : plans)
        best_played = std::max(best_played, predict_exactly(plan, inputs, book).speed());
      const auto all = predict_all(plans, inputs, book);
      const auto& best = std::ranges::max(all, {}, &Prediction::speed);
      EXPECT_GT(predict_exactly(best.plan, inputs, book).speed(), 0.99 * best_played)
          << size << " " << link;
      EXPECT_TRUE(best.exact);
    }
  }
}

TEST(PredictAll, KnowsWhatACodeRoundsAway) {
  PriceBook book;
  Inputs inputs = even(4, "1gbit,1ms", 0.05, 2'000'000);
  inputs.adam = true;
  const auto plans = plan::candidates(4, {.pins = plan::parse_pins("gradients srs density=100%")});
  for (const Prediction& each : predict_all(plans, inputs, book)) {
    EXPECT_NEAR(each.efficiency,
                each.plan.values == plan::ValueCode::kInt4 ? std::pow(0.6, 0.3) : 1, 1e-12)
        << to_string(each.plan);
  }
}

// One slow port: whoever leads from behind it is priced as such, and the best plan is the best by
// full playback.
TEST(PredictAll, PlaysUnequalLinks) {
  PriceBook book;
  Inputs inputs = even(8, "1gbit,1ms", 0.05, 2'000'000, 1);
  inputs.world.links[3] = plan::parse_link("50mbit,1ms");
  const auto plans =
      plan::candidates(8, {.pins = plan::parse_pins("gradients fuse=all values=f16")});
  double best_played = 0;
  for (const auto& plan : plans)
    best_played = std::max(best_played, predict_exactly(plan, inputs, book).speed());
  const auto all = predict_all(plans, inputs, book);
  const auto& best = std::ranges::max(all, {}, &Prediction::speed);
  EXPECT_TRUE(best.exact);
  EXPECT_GT(best.speed(), 0.97 * best_played);
}

TEST(Predict, RefusesInputsThatCannotBe) {
  PriceBook book;
  Inputs inputs = even(4, "1gbit,1ms", 0.1, 1000);
  inputs.compute = {0};
  EXPECT_THROW((void)predict({}, inputs, book), ContractError);
  inputs = even(4, "1gbit,1ms", 0.1, 1000, 2);
  std::swap(inputs.buckets[0], inputs.buckets[1]);
  EXPECT_THROW((void)predict({}, inputs, book), ContractError);
  inputs = even(4, "1gbit,1ms", 0.1, 1000);
  inputs.world.size = 5;
  EXPECT_THROW((void)predict({}, inputs, book), ContractError);
}

}  // namespace
}  // namespace pliant::model
