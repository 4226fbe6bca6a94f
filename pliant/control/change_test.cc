// SPDX-License-Identifier: MIT
#include "pliant/control/change.h"

#include <gtest/gtest.h>

namespace pliant::control {
namespace {

const plan::Plan kDense = plan::parse_plan("gradients dense");
const plan::Plan kTop20 = plan::parse_plan("gradients union density=20%");
const plan::Plan kTop10 = plan::parse_plan("gradients union density=10%");
const plan::Plan kUpdates = plan::parse_plan("updates every=4 late=0 union density=3%");

Change change(const char* link_before, const char* link, Cause cause = Cause::kNetwork) {
  return {.before = kTop20,
          .link_before = plan::parse_link(link_before),
          .after = kTop10,
          .origin = {.cause = cause, .link = plan::parse_link(link), .speed_up = 1.3}};
}

TEST(Sentence, NamesTheNetworkAndBothPlans) {
  EXPECT_EQ(sentence(change("400mbit,1ms", "40mbit,1ms")),
            "network slower (40 Mbit/s): top 10 % instead of 20 %");
  EXPECT_EQ(sentence(change("40mbit,1ms", "400mbit,1ms", Cause::kFaster)),
            "network faster (400 Mbit/s): top 10 % instead of 20 %");
  EXPECT_EQ(sentence(change("40mbit,1ms", "40mbit,9ms")),
            "network latency higher (9 ms): top 10 % instead of 20 %");
}

TEST(Sentence, DoesNotBlameANetworkThatIsAsItWas) {
  EXPECT_EQ(sentence(change("40mbit,1ms", "42mbit,1.1ms", Cause::kFaster)),
            "predicted 1.3x faster: top 10 % instead of 20 %");
  EXPECT_EQ(sentence(change("40mbit,1ms", "42mbit,1.1ms")),
            "network changed: top 10 % instead of 20 %");
}

TEST(Sentence, PrintsNoRateThatIsHardlyKnown) {
  Change vague = change("400mbit,1ms", "40mbit,1ms");
  vague.origin.link->seconds_per_byte_uncertainty = 0.9 * vague.origin.link->seconds_per_byte;
  EXPECT_EQ(sentence(vague), "network slower: top 10 % instead of 20 %");
}

TEST(Sentence, SaysThatTheFirstNetworkWasAGuess) {
  Change first = change("400mbit,1ms", "40mbit,1ms", Cause::kFaster);
  first.link_before.reset();
  EXPECT_EQ(sentence(first), "network measured (40 Mbit/s): top 10 % instead of 20 %");
}

TEST(Sentence, TellsTheOtherCausesApart) {
  EXPECT_EQ(sentence({.after = kDense, .origin = {.cause = Cause::kFirst}}), "start: dense");
  EXPECT_EQ(sentence({.after = kTop10, .origin = {.cause = Cause::kPinned}}), "pinned: top 10 %");
  EXPECT_EQ(sentence({.before = kDense, .after = kTop10, .origin = {.cause = Cause::kTrial}}),
            "trial of one exchange: top 10 % instead of dense");
  EXPECT_EQ(sentence({.before = kTop10, .after = kTop10}), "top 10 % stays");
}

TEST(Sentence, NamesTheGoalAndTheFullExchange) {
  EXPECT_EQ(sentence({.before = kTop20,
                      .after = kTop10,
                      .origin = {.cause = Cause::kWarmUpOver,
                                 .goal = plan::parse_plan("gradients union density=1%")}}),
            "warm-up over: top 10 % instead of 20 %, on the way to top 1 %");
  EXPECT_EQ(sentence({.before = kDense,
                      .after = kUpdates,
                      .origin = {.cause = Cause::kFaster, .speed_up = 3},
                      .after_full_exchange = true}),
            "predicted 3x faster: updates every 4, top 3 % instead of dense, after one full "
            "exchange");
}

}  // namespace
}  // namespace pliant::control
