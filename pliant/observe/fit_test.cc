// SPDX-License-Identifier: MIT
#include "pliant/observe/fit.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "pliant/observe/detector.h"
#include "pliant/observe/level.h"
#include "pliant/observe/network.h"
#include "tests/support/synthetic_network.h"

namespace pliant::observe {
namespace {

Row row(double messages, double bytes, const plan::Link& link) {
  return {messages, bytes, messages * link.latency.value + bytes * link.seconds_per_byte};
}

// Without noise one exchange and one all-gather of records give both numbers, wherever the search
// starts.
TEST(Fit, TwoTimingsGiveBothNumbers) {
  EXPECT_TRUE(rc::check([] {
    const auto magnitude = [](int from, int to) {
      return rc::gen::map(rc::gen::inRange(from * 100, to * 100),
                          [](int e) { return std::pow(10, e / 100.0); });
    };
    const plan::Link truth{.latency = {*magnitude(-5, -1)},
                           .seconds_per_byte = *magnitude(-10, -6)};
    Window exchanges;
    Window controls;
    exchanges.add(row(14, *magnitude(5, 8), truth));
    controls.add(row(3, 448, truth));
    const plan::Link found = fit(exchanges, controls, kFirstGuess, 0.2);
    // Each is found where it matters: what contributes 1 % of a timing cannot be known better than
    // 1/0.01 of its error.
    const double by_bytes =
        exchanges.rows()[0].bytes * truth.seconds_per_byte / exchanges.rows()[0].seconds;
    if (by_bytes > 0.1)
      RC_ASSERT(std::abs(found.seconds_per_byte / truth.seconds_per_byte - 1) < 0.05);
    const double expected =
        14 * found.latency.value + exchanges.rows()[0].bytes * found.seconds_per_byte;
    RC_ASSERT(std::abs(expected / exchanges.rows()[0].seconds - 1) < 0.01);
  }));
}

TEST(Fit, OneKindOfTimingMovesBothNumbersAndFits) {
  Window exchanges;
  exchanges.add({10, 1e6, 0.5});
  const plan::Link found = fit(exchanges, {}, kFirstGuess, 0.2);
  EXPECT_NEAR(10 * found.latency.value + 1e6 * found.seconds_per_byte, 0.5, 0.01);
  EXPECT_GT(found.latency_uncertainty.value / found.latency.value,
            1);  // it says that it does not know
}

TEST(Fit, ConvergesUnderNoiseWithAnHonestUncertainty) {
  int within = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    test::SyntheticNetwork network(plan::parse_link("200mbit,3ms"), seed);
    Window exchanges;
    Window controls;
    for (int i = 0; i < 32; ++i) {
      const Row exchange = row(14, 5e6, network.link);
      const Row control = row(3, 448, network.link);
      exchanges.add({exchange.messages, exchange.bytes, network.noisy({exchange.seconds}).value});
      controls.add({control.messages, control.bytes, network.noisy({control.seconds}).value});
    }
    const plan::Link found = fit(exchanges, controls, kFirstGuess, 0.2);
    EXPECT_NEAR(found.latency.value / network.link.latency.value, 1, 0.25) << seed;
    EXPECT_NEAR(found.seconds_per_byte / network.link.seconds_per_byte, 1, 0.25) << seed;
    within += std::abs(found.seconds_per_byte - network.link.seconds_per_byte) <
                      2 * found.seconds_per_byte_uncertainty
                  ? 1
                  : 0;
  }
  EXPECT_GE(within, 33);  // of 40; two deviations hold 95 %
}

TEST(Window, KeepsTheLatest) {
  Window window;
  for (int i = 0; i < 50; ++i) window.add({1, 1, static_cast<double>(i)});
  ASSERT_EQ(window.rows().size(), Window::kRows);
  EXPECT_EQ(window.rows().back().seconds, 49);
  window.forget(2);
  ASSERT_EQ(window.rows().size(), 2U);
  EXPECT_EQ(window.rows().front().seconds, 48);
}

TEST(Detector, SeesAShiftWithinThreeTimingsAndAJumpAtOnce) {
  for (const double shift : {0.9, -0.9}) {
    Detector detector;
    for (int i = 0; i < 100; ++i) ASSERT_EQ(detector.take(i % 2 == 0 ? 0.15 : -0.15, 0.2), 0);
    int timings = 1;
    while (detector.take(shift, 0.2) == 0) ++timings;
    EXPECT_LE(timings, 4);
    EXPECT_FALSE(detector.suspicious());
  }
  EXPECT_EQ(Detector().take(std::log(100), 0.2), 1);
  EXPECT_EQ(Detector().take(-std::log(100), 0.2), 1);
  EXPECT_EQ(Detector().take(std::log(100), 0.2, Detector::Slow::kMustBeTwice), 0);
  EXPECT_EQ(Detector().take(std::log(10), 1.2), 0) << "noise of a busy host";
  EXPECT_EQ(Detector().take(-std::log(10), 1.2), 0);
  EXPECT_EQ(Detector().take(std::log(1000), 1.2), 1);
  Detector twice;
  EXPECT_EQ(twice.take(std::log(5), 0.2), 0);
  EXPECT_EQ(twice.take(std::log(5), 0.2), 2);
}

TEST(Level, FollowsJumpsAfterThreeAndIgnoresOutliers) {
  Level level;
  EXPECT_FALSE(level.take(-1));
  EXPECT_FALSE(level.take(std::nan("")));
  EXPECT_FALSE(level.known());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(level.take(0.1));
  level.take(1.0);
  EXPECT_LT(level.value(), 0.103);
  level.take(0.1);
  for (int i = 0; i < 3; ++i) level.take(1.0);
  EXPECT_EQ(level.value(), 1.0);
}

TEST(Level, DoesNotJumpWithinItsNoise) {
  Level level;
  test::SyntheticNetwork dice({}, 1);
  double lowest = 1e9;
  double highest = 0;
  for (int i = 0; i < 1000; ++i) {
    level.take(std::exp(1.2 * dice.normal()));
    if (i < 50) continue;
    lowest = std::min(lowest, level.value());
    highest = std::max(highest, level.value());
  }
  EXPECT_GT(level.uncertainty(), 0.05);
  EXPECT_LT(highest, 2) << "single measurements are ten times that";
  EXPECT_GT(lowest, 0.5);
  Level wanders;  // between two paces, for thirty measurements each
  for (int i = 0; i < 300; ++i) wanders.take(i / 30 % 2 == 0 ? 1 : 5);
  EXPECT_GT(wanders.uncertainty(), 0.4);
  Level quiet;
  for (int i = 0; i < 100; ++i) quiet.take(1 + 0.02 * dice.normal());
  EXPECT_LT(quiet.uncertainty(), 0.01);
}

}  // namespace
}  // namespace pliant::observe
