// SPDX-License-Identifier: MIT
#include "pliant/observe/network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pliant/common/errors.h"
#include "tests/support/synthetic_network.h"

namespace pliant::observe {
namespace {

constexpr model::Weight kExchange{.messages = 14, .bytes = 2e6};
constexpr model::Weight kControl{.messages = 3, .bytes = 448};

Batch batch(test::SyntheticNetwork& network, std::int64_t step,
            const model::Weight& exchange = kExchange, double factor = 1) {
  return {.exchange = {step, exchange.messages, exchange.bytes, factor * network.took(exchange), 0},
          .control = Sample{step, kControl.messages, kControl.bytes, network.took(kControl), 0}};
}

TEST(Network, OneExchangeWithoutNoiseIsEnough) {
  test::SyntheticNetwork truth(plan::parse_link("30mbit,20ms"), 1, 0, 0);
  Network network(8);
  (void)network.take(batch(truth, 0));
  EXPECT_NEAR(network.link().latency / truth.link.latency, 1, 0.02);
  EXPECT_NEAR(network.link().seconds_per_byte / truth.link.seconds_per_byte, 1, 0.02);
}

TEST(Network, ConvergesUnderNoise) {
  double sum = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    test::SyntheticNetwork truth(plan::parse_link("100mbit,5ms"), seed);
    Network network(8);
    for (int step = 0; step < 60; ++step) (void)network.take(batch(truth, step));
    const double expected = network.corrections().factors[0] *
                            (kExchange.over(network.link()) / kExchange.over(truth.link));
    EXPECT_NEAR(expected, 1, 0.12) << seed;
    sum += expected / 20;
  }
  EXPECT_NEAR(sum, 1, 0.04);
}

// Noise is no change: the memory is shortened less than once in 2,500 exchanges, mostly by outliers
// that come in pairs.
TEST(Network, NoiseCausesNoAlarm) {
  int alarms = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    test::SyntheticNetwork truth(plan::parse_link("100mbit,5ms"), seed);
    Network network(8);
    for (int step = 0; step < 1000; ++step)
      alarms += network.take(batch(truth, step)).changed && step > 5 ? 1 : 0;
  }
  EXPECT_LE(alarms, 16);
}

// A hundred times slower or faster, in latency, in bandwidth or in both: one exchange later the
// price is right again.
TEST(Network, FollowsJumpsAtOnce) {
  const char* links[] = {"1gbit,1ms", "10mbit,1ms", "1gbit,100ms", "10mbit,100ms"};
  for (const char* from : links) {
    for (const char* to : links) {
      test::SyntheticNetwork truth(plan::parse_link(from), 7);
      Network network(8);
      std::int64_t step = 0;
      for (; step < 50; ++step) (void)network.take(batch(truth, step));
      const plan::Link before = truth.link;
      truth.link = plan::parse_link(to);
      // What is 3x slower or less may be noise once or twice; after five it is known.
      const double jump = std::abs(std::log(kExchange.over(truth.link) / kExchange.over(before)));
      for (int i = 0; i < (jump > 2.5 ? 1 : 5); ++i) (void)network.take(batch(truth, step++));
      EXPECT_NEAR(std::log(kExchange.over(network.link()) / kExchange.over(truth.link)), 0, 0.5)
          << from << " to " << to;
    }
  }
}

TEST(Network, ACorrectionLearnsWhatTheLinkCannotSay) {
  test::SyntheticNetwork truth(plan::parse_link("100mbit,1ms"), 3, 0.05, 0);
  Network network(8);
  const model::Weight other{.messages = 3, .bytes = 8e6};
  for (int step = 0; step < 400; ++step) {
    Batch sent = step % 2 == 0 ? batch(truth, step)
                               : batch(truth, step, other,
                                       1.6);  // the second scheme is slower than its price
    sent.exchange.correction = step % 2 == 0 ? 0 : 4;
    (void)network.take(sent);
  }
  const auto expected = [&](const model::Weight& weight, std::size_t c) {
    return network.corrections().factors.at(c) * weight.over(network.link()).value;
  };
  EXPECT_NEAR(expected(kExchange, 0) / kExchange.over(truth.link).value, 1, 0.1);
  EXPECT_NEAR(expected(other, 4) / (1.6 * other.over(truth.link).value), 1, 0.1);
  EXPECT_EQ(network.last_seen(4), 399);
  EXPECT_FALSE(network.last_seen(9));
}

TEST(Network, ABadTimingIsNamedAndChangesNothing) {
  test::SyntheticNetwork truth(plan::parse_link("100mbit,1ms"), 3);
  Network network(8);
  for (int step = 0; step < 10; ++step) (void)network.take(batch(truth, step));
  const Network before = network;
  const auto ignored = [&](double seconds, std::int64_t step = 10) {
    Batch bad = batch(truth, step);
    bad.exchange.duration = {seconds};
    const auto taken = network.take(bad);
    EXPECT_EQ(network, before);
    EXPECT_FALSE(taken.changed);
    return taken.ignored.value_or("");
  };
  EXPECT_EQ(ignored(-1),
            "step 10: timing of -1 s ignored: negative; a clock may have been set back");
  EXPECT_EQ(ignored(0), "step 10: timing of 0 s ignored: zero; the clock may be too coarse");
  EXPECT_EQ(ignored(std::nan("")), "step 10: timing of nan s ignored: not a number");
  EXPECT_EQ(ignored(1e-9), "step 10: timing of 1e-09 s ignored: no message is that fast");
  EXPECT_EQ(ignored(1e9),
            "step 10: timing of 1e+09 s ignored: more than an hour; the machine may have been "
            "suspended");
  EXPECT_NE(ignored(std::numeric_limits<double>::infinity()), "");
  EXPECT_EQ(ignored(0.1, 9), "step 9: timing ignored: step 9 was already recorded");
  Batch empty = batch(truth, 10);
  empty.exchange.messages = empty.exchange.bytes = 0;
  EXPECT_EQ(network.take(empty).ignored,
            "step 10: timing of 0 messages and 0 bytes ignored: nothing was sent");
  Batch bad_control = batch(truth, 10);
  bad_control.control->duration = {-1};
  EXPECT_TRUE(network.take(bad_control).ignored);
  EXPECT_EQ(network, before);
}

TEST(Network, GoesThroughTextUnchanged) {
  test::SyntheticNetwork truth(plan::parse_link("100mbit,1ms"), 3);
  Network network(3);
  EXPECT_EQ(parse_network(network.to_text()), network);
  for (int step = 0; step < 50; ++step) (void)network.take(batch(truth, step));
  Network again = parse_network(network.to_text());
  EXPECT_EQ(again, network);
  const Batch next = batch(truth, 50);
  (void)again.take(next);
  (void)network.take(next);
  EXPECT_EQ(again, network);
  const std::string text = network.to_text();
  EXPECT_THROW((void)parse_network(text.substr(0, text.size() / 2)), InputError);
  EXPECT_THROW((void)parse_network(text + " 1"), InputError);
  EXPECT_THROW((void)parse_network("9" + text.substr(1)), InputError);
  EXPECT_THROW((void)parse_network("1 2 x"), InputError);
  EXPECT_THROW((void)parse_network("1 3 3" + text.substr(5)), InputError);
  EXPECT_THROW((void)parse_network(""), InputError);
}

}  // namespace
}  // namespace pliant::observe
