// SPDX-License-Identifier: MIT
// The parts of a decision by themselves: warm-up, pinned plans, ramp, hysteresis, trials.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pliant/common/errors.h"
#include "pliant/control/decide.h"
#include "pliant/control/pinned.h"
#include "pliant/control/warm_up.h"

namespace pliant::control {
namespace {

using testing::HasSubstr;

PinnedPlan pinned(const char* pins, WarmUp warm_up = WarmUp::kNone, std::int64_t steps = 0) {
  return {plan::parse_pins(pins), warm_up, steps};
}

TEST(PinnedPlan, IsInForceInEveryRound) {
  const PinnedPlan plan = pinned("gradients union density=3% values=int8");
  for (std::uint64_t round = 0; round < 5; ++round) {
    EXPECT_EQ(plan.at(round).plan, plan::parse_plan("gradients union density=3% values=int8"));
    EXPECT_EQ(plan.at(round).reason, "pinned: gradients union density=3% values=int8");
  }
}

TEST(PinnedPlan, FillsInWhatIsNotPinned) {
  EXPECT_EQ(pinned("auto").at(0).plan, plan::Plan{});
  EXPECT_EQ(pinned("srs").at(0).plan, plan::parse_plan("gradients srs density=1%"));
  EXPECT_EQ(pinned("every=4").at(0).plan, plan::parse_plan("updates every=4 dense"));
}

TEST(PinnedPlan, WarmsUpDense) {
  const PinnedPlan plan = pinned("updates every=2 late=1 srs density=1%", WarmUp::kDense, 10);
  EXPECT_EQ(plan.at(4).plan, plan::parse_plan("updates every=2 late=1 dense"));
  EXPECT_EQ(plan.at(4).reason, "warm-up: dense for the first 10 steps");
  EXPECT_EQ(plan.at(5).plan.scheme, plan::Scheme::kSrs);
}

TEST(PinnedPlan, CountsStepsOfWarmUpNotExchanges) {
  const char* rare = "updates every=8 union density=1%";
  EXPECT_EQ(pinned(rare, WarmUp::kDense, 8).at(0).plan.scheme, plan::Scheme::kDense);
  EXPECT_EQ(pinned(rare, WarmUp::kDense, 8).at(1).plan.scheme, plan::Scheme::kUnion);
  EXPECT_EQ(pinned(rare, WarmUp::kRamp, 80).at(9).plan.density, 0.03);
  EXPECT_EQ(pinned(rare, WarmUp::kRamp, 80).at(10).plan.density, 0.01);
  EXPECT_EQ(pinned("gradients union density=1%", WarmUp::kDense, 8).at(7).plan.scheme,
            plan::Scheme::kDense);
}

TEST(PinnedPlan, RampsDownNeverUp) {
  const PinnedPlan plan = pinned("gradients srs density=1%", WarmUp::kRamp, 60);
  double last = 1;
  EXPECT_EQ(plan.at(0).plan.density, 1);
  for (std::uint64_t round = 0; round <= 60; ++round) {
    const double density = plan.at(round).plan.density;
    EXPECT_LE(density, last);
    EXPECT_GE(density * 3.4, last) << "no rung is far from the one before";
    last = density;
  }
  EXPECT_EQ(last, 0.01);
  EXPECT_EQ(plan.at(59).reason, "warm-up: density falls to 1% within 60 steps");
}

TEST(PinnedPlan, OfADensePlanNeedsNoWarmUp) {
  EXPECT_EQ(pinned("gradients dense", WarmUp::kRamp, 10).at(0).reason, "pinned: gradients dense");
}

TEST(Pins, AreCompleteWithKindSchemeAndDensity) {
  EXPECT_TRUE(is_complete(plan::parse_pins("gradients dense")));
  EXPECT_TRUE(is_complete(plan::parse_pins("updates union density=1%")));
  EXPECT_FALSE(is_complete(plan::parse_pins("updates union")));
  EXPECT_FALSE(is_complete(plan::parse_pins("union density=1%")));
}

TEST(Decide, LeavesAFixedPlanAlone) {
  State state;
  model::PriceBook book;
  EXPECT_THROW((void)decide({}, {.policy = Policy::kFixed}, state, book), ContractError);
}

std::optional<plan::Plan> at_density(double density) {
  plan::Plan plan = plan::parse_plan("gradients union density=1%");
  plan.density = density;
  return plan;
}

TEST(Ramp, AllowsOneRungAtATime) {
  const Options options;
  Ramp ramp;
  EXPECT_EQ(ramp.floor(std::nullopt, options, 0), 0.1);
  EXPECT_EQ(ramp.floor(at_density(1), options, 100), 0.1) << "from dense straight to 10 %";
  ramp.note_switch(1, 0.1, options, 100);
  EXPECT_EQ(ramp.floor(at_density(0.1), options, 149), 0.1);
  EXPECT_NEAR(ramp.floor(at_density(0.1), options, 150), 0.1 / 3.4, 1e-12);
  EXPECT_TRUE(ramp.opened(*at_density(0.1), options, 149, 150));
  EXPECT_FALSE(ramp.opened(*at_density(0.1), options, 150, 151));
}

TEST(Ramp, AllowsTheDensityBeforeARise) {
  const Options options;
  Ramp ramp{.sparser = 90};
  ramp.note_switch(0.01, 0.05, options, 100);
  EXPECT_EQ(ramp.floor(at_density(0.05), options, 110), 0.01);
  ramp.note_switch(0.05, 0.1, options, 120);
  EXPECT_EQ(ramp.floor(at_density(0.1), options, 130), 0.01) << "before the first of two rises";
  EXPECT_GT(ramp.floor(at_density(0.1), options, 170), 0.01);
}

TEST(Hysteresis, SaysWhatASwitchWaitsFor) {
  const Options options;
  const plan::Plan plan;
  Hysteresis hysteresis;
  const auto why = [&](double advantage, std::int64_t step) {
    return hysteresis.objection({plan, advantage, "faster"}, options, step).value_or("");
  };
  EXPECT_THAT(why(1.04, 0), HasSubstr("would be 4 % faster; a switch needs more than 5 %"));
  EXPECT_THAT(why(1.2, 0), HasSubstr("20 % faster; switching after 2 more confirmations"));
  EXPECT_THAT(why(1.2, 0), HasSubstr("switching after 1 more confirmation"));
  EXPECT_EQ(why(1.2, 0), "");
  hysteresis.note_switch(10);
  EXPECT_THAT(why(1.6, 13), HasSubstr("but the last switch was 3 steps ago; a switch needs 20"));
  EXPECT_EQ(why(1.6, 30), "") << "half as fast again needs no confirmation";
}

TEST(Hysteresis, DoesNotProtectAPlanFromAChangedNetworkOrWarmUp) {
  const Options options;
  const plan::Plan plan;
  Hysteresis hysteresis{.switched = 10};
  EXPECT_TRUE(hysteresis.objection({plan, 1.2, "faster"}, options, 11));
  hysteresis.begin(true, options, 12);
  EXPECT_TRUE(hysteresis.unsettled(12));
  EXPECT_FALSE(hysteresis.objection({plan, 1.2, "faster"}, options, 12));
  for (int i = 0; i < options.settling_exchanges; ++i) hysteresis.begin(false, options, 30);
  EXPECT_FALSE(hysteresis.unsettled(30));
  Hysteresis after_warm_up{.switched = 99};
  EXPECT_FALSE(after_warm_up.objection({plan, 1.01, "faster", true}, options, 100));
  EXPECT_TRUE(after_warm_up.objection({plan, 1, "faster", true}, options, 100));
}

TEST(Hysteresis, KeepsThePlanWhileItIsNotKnownWhichIsBetter) {
  const Options options;
  const plan::Plan plan = plan::parse_plan("gradients union density=1%");
  Hysteresis hysteresis{.switched = 0};
  const Hysteresis::Challenge challenge{.plan = plan,
                                        .advantage = 2,
                                        .better = "faster",
                                        .at_least = 0.7,
                                        .doubt = "the network is too fast to tell"};
  for (int decision = 0; decision < 10; ++decision) {
    const auto why = hysteresis.objection(challenge, options, 100 + decision);
    ASSERT_TRUE(why);
    EXPECT_THAT(*why,
                HasSubstr("would be 100 % faster, but it may also be 30 % slower: the network "
                          "is too fast to tell"));
    EXPECT_TRUE(hysteresis.doubtful());
  }
  EXPECT_FALSE(hysteresis.objection({plan, 2, "faster"}, options, 110)) << "now it is known";
}

TEST(Trials, AreDueWhenSomethingMayBeStale) {
  const Options options;
  Trials trials;
  EXPECT_FALSE(trials.due(options, {.step = options.stale_steps - 1}));
  EXPECT_TRUE(trials.due(options, {.step = options.stale_steps}));
  trials.next_trial = 5'000;
  EXPECT_FALSE(trials.due(options, {.step = 4'999}));
  EXPECT_TRUE(trials.due(options, {.step = 5'000}));
  EXPECT_FALSE(trials.due(options, {.step = 5'000, .noise = 1})) << "it would teach nothing";
}

TEST(Trials, PickAPlanThatIsNearlyAsFastAndWasNeverTimed) {
  Inputs inputs{.step = 2'000};
  inputs.model.world = plan::uniform_world(8, plan::parse_link("200mbit,2ms"));
  inputs.model.buckets = {{10'000'000, {0.1}}};
  inputs.model.compute = {0.1};
  const Options options{.candidates = {.pins = plan::parse_pins("gradients")}};
  model::PriceBook book;
  const Evaluation evaluation(inputs.model, options, book);
  const model::Prediction goal = evaluation.goal(std::nullopt);
  Trials trials;
  const auto trial = trials.pick(goal.plan, goal, evaluation, inputs, options);
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->last_seen, -1);
  EXPECT_GE(trial->prediction.speed() * options.trial_slowdown, goal.speed());
  EXPECT_EQ(trials.next_trial, 2'250);
  inputs.last_seen.fill(1'999);
  EXPECT_FALSE(trials.pick(goal.plan, goal, evaluation, inputs, options));
  EXPECT_EQ(trials.next_trial, 3'000);
}

}  // namespace
}  // namespace pliant::control
