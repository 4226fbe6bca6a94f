// SPDX-License-Identifier: MIT
#include "pliant/control/front.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "pliant/plan/density.h"

namespace pliant::control {
namespace {

using model::Prediction;

Prediction point(double step, double efficiency, double gain = 1) {
  return {.step = {step}, .efficiency = efficiency, .counted = efficiency, .gain = gain};
}

TEST(Front, KeepsWhatNobodyBeatsInBothRespects) {
  const std::vector<Prediction> all = {point(3, 1),   point(1, 0.5), point(2, 0.4),
                                       point(2, 0.8), point(3, 0.9), point(1, 0.5)};
  const auto kept = front(all);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[0].step.value, 1);
  EXPECT_EQ(kept[1].step.value, 2);
  EXPECT_EQ(kept[1].efficiency, 0.8);
  EXPECT_EQ(kept[2].efficiency, 1);
}

// The slow twin: sorted by step, then those that are better than all before them. Few different
// values, so that many are equal.
TEST(Front, IsWhatSortingFinds) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Prediction> all;
    const auto count = random() % 40;
    for (unsigned i = 0; i < count; ++i)
      all.push_back(point(static_cast<double>(1 + random() % 12),
                          0.1 * static_cast<double>(1 + random() % 9), i));
    std::vector<Prediction> sorted = all;
    std::ranges::stable_sort(sorted, [](const Prediction& a, const Prediction& b) {
      return a.step != b.step ? a.step < b.step : a.efficiency > b.efficiency;
    });
    std::vector<double> expected;  // who they were
    double best = 0;
    for (const Prediction& each : sorted) {
      if (each.efficiency > best) expected.push_back(each.gain);
      best = std::max(best, each.efficiency);
    }
    std::vector<double> found;
    for (const Prediction& each : front(all)) found.push_back(each.gain);
    EXPECT_EQ(found, expected);
  }
}

TEST(Front, ThePoliciesPickTheirPoints) {
  const std::vector<Prediction> all = {point(1, 0.3, 0.2), point(1.2, 0.7, 0.7), point(2, 0.9, 0.8),
                                       point(4, 1, 1)};
  EXPECT_EQ(fastest(all_of(all)), &all[1]);
  EXPECT_EQ(knee(all_of(all)), &all[1]);
  EXPECT_EQ(fastest({}), nullptr);
  EXPECT_EQ(knee({}), nullptr);
}

TEST(Front, TheDensestPlanIsBoundedByItsStep) {
  std::vector<Prediction> all = {point(1, 0.3), point(2, 0.7), point(4, 1), point(1.5, 0.6)};
  all[0].plan = plan::parse_plan("gradients union density=1%");
  all[1].plan = plan::parse_plan("gradients union density=10%");
  all[3].plan = plan::parse_plan("gradients srs density=10%");
  EXPECT_EQ(densest(all_of(all), {5}), &all[2]);
  EXPECT_EQ(densest(all_of(all), {3}), &all[3]);  // as dense as the other and faster
  EXPECT_EQ(densest(all_of(all), {0.5}), nullptr);
}

TEST(Guards, HoldUnlessPinned) {
  const Guards guards;
  const auto may = [&](const char* text, const char* pins = "auto", bool adam = false) {
    return allowed(plan::parse_plan(text), plan::parse_pins(pins), guards, adam);
  };
  EXPECT_TRUE(may("updates union density=0.1%"));
  EXPECT_FALSE(may("gradients union density=0.1%"));
  EXPECT_FALSE(may("updates shared/star density=0.1%"));
  EXPECT_TRUE(may("updates shared/var density=0.1%"));
  EXPECT_FALSE(may("updates every=4 union density=0.1%"));
  EXPECT_TRUE(may("updates every=2 union density=0.1%"));
  EXPECT_FALSE(may("updates every=16 dense"));
  EXPECT_TRUE(may("updates every=16 dense", "every=16"));
  EXPECT_TRUE(may("updates late=4 dense"));
  EXPECT_FALSE(may("updates late=2 dense", "auto", true));
  EXPECT_TRUE(may("updates late=2 dense", "late=2", true));
  EXPECT_TRUE(may("gradients union density=0.1%", "density=0.1%"));
}

// The published table of communication times: N = 8, latency 1 ms; ms for all-gather, shared ring,
// shared tree at densities 10 %, 1 %, 0.1
// %.
struct Published {
  const char* model;
  double million_parameters, gigabits;
  std::array<std::array<double, 3>, 3> ms;
};
constexpr Published kPublished[] = {
    {"ResNet18", 11.69, 10, {{{54, 35, 43.2}, {7.66, 18.1, 12.2}, {3.28, 16.7, 9}}}},
    {"ResNet18", 11.69, 5, {{{107.76, 52.5, 76.3}, {13.83, 20.8, 16.1}, {4.25, 17.9, 10.1}}}},
    {"ResNet18", 11.69, 1, {{{526.3, 194.7, 345.6}, {51.93, 34.1, 41.9}, {8.86, 19.5, 12.8}}}},
    {"ResNet50", 25.56, 10, {{{115.1, 52.9, 83.4}, {14.35, 20.3, 15.9}, {4.65, 18.1, 10}}}},
    {"ResNet50", 25.56, 5, {{{232, 94.7, 156.2}, {28.1, 26.1, 24.2}, {5.3, 17.8, 10.5}}}},
    {"ResNet50", 25.56, 1, {{{1148, 405.5, 745}, {126.5, 58.8, 83.7}, {14.35, 21, 16.1}}}},
    {"AlexNet", 61.10, 10, {{{271.8, 106.8, 180.4}, {32.73, 25.2, 25.8}, {6, 18.6, 11.1}}}},
    {"AlexNet", 61.10, 5, {{{544.5, 200.4, 354.8}, {61.75, 34.8, 42.6}, {8.92, 19.3, 13.1}}}},
    {"AlexNet", 61.10, 1, {{{2718.7, 964.4, 1778}, {282.7, 111.8, 186.8}, {31.33, 27, 27.3}}}},
    {"ViT", 133.4, 10, {{{592.77, 238.6, 401.2}, {68.48, 36.2, 46.2}, {9.15, 19.2, 12.9}}}},
    {"ViT", 133.4, 5, {{{1206, 424.3, 779.1}, {127.45, 58, 86.2}, {15.3, 21.4, 16.9}}}},
    {"ViT", 133.4, 1, {{{5973, 2047, 3852}, {601.8, 222.8, 385.2}, {59.68, 36.7, 44.4}}}},
};
constexpr std::array<const char*, 3> kCollectives = {"union gather=bruck",
                                                     "shared/star bcast=binomial reduce=ring",
                                                     "shared/star bcast=binomial reduce=tree"};

// The published formulas are the prices of three of our plans (exchange_test). knee takes the
// published winner in every row.
TEST(Knee, PicksThePublishedCollectiveInAll36Rows) {
  model::PriceBook book;
  int rows = 0;
  for (const Published& row : kPublished) {
    model::Inputs inputs{
        .world =
            plan::uniform_world(8, plan::link_of(from_bits_per_second(row.gigabits * 1e9), {1e-3})),
        .buckets = {{static_cast<std::size_t>(row.million_parameters * 1e6), {1e-9}}},
        .compute = {1e-9},
        .lanes = 0};
    for (std::size_t d = 0; d < 3; ++d) {
      constexpr std::array densities = {0.1, 0.01, 0.001};
      std::vector<Prediction> all;
      for (const char* collective : kCollectives) {
        const auto plan = plan::parse_plan(
            fmt::format("gradients {} density={} values=f32 indices=raw32 fuse=all", collective,
                        plan::density_text(densities.at(d))));
        all.push_back(model::predict(plan, inputs, book));
      }
      const auto winner = std::ranges::min_element(row.ms.at(d)) - row.ms.at(d).begin();
      EXPECT_EQ(knee(all_of(all)) - all.data(), winner)
          << row.model << ", " << row.gigabits << " Gbit/s, density " << densities.at(d);
      ++rows;
    }
  }
  EXPECT_EQ(rows, 36);
}

}  // namespace
}  // namespace pliant::control
