// SPDX-License-Identifier: MIT
#include "pliant/engine/common_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace pliant::engine {
namespace {

constexpr int kRanks = 4;
constexpr std::size_t kEntries = 20'000;

// Ranks whose progress has a common part with this share of its energy; each sends what is at least
// `threshold` large.
struct World {
  World(double share, float threshold)
      : own(kRanks, std::vector<float>(kEntries)), residual(own), result(kEntries) {
    std::mt19937 dice(7);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < kEntries; ++i) {
      const double common = std::sqrt(share) * normal(dice);
      for (std::size_t r = 0; r < kRanks; ++r) {
        const auto progress = static_cast<float>(common + std::sqrt(1 - share) * normal(dice));
        (std::abs(progress) >= threshold ? own : residual)[r][i] = progress;
        result[i] += own[r][i] / kRanks;
      }
    }
  }

  [[nodiscard]] CommonShare seen_by(std::size_t rank, int exchanges = 100) const {
    CommonShare share;
    for (int i = 0; i < exchanges; ++i)
      share.note({.result = result, .own_part = own[rank], .residual = residual[rank]}, kRanks, 1);
    return share;
  }

  std::vector<std::vector<float>> own, residual;  // by rank
  std::vector<float> result;
};

TEST(CommonShareTest, StartsWithEverythingInCommon) {
  EXPECT_EQ(CommonShare().value(), 1);
  EXPECT_EQ(CommonShare().lengthening(kRanks), 1);
}

class CommonShareTest : public testing::TestWithParam<float> {};

TEST_P(CommonShareTest, IsFoundWhateverWasSelected) {
  for (const double share : {0.1, 0.3, 0.7, 1.0}) {
    const World world(share, GetParam());
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      EXPECT_NEAR(world.seen_by(rank).value(), share, 0.04) << share;
  }
}

INSTANTIATE_TEST_SUITE_P(Thresholds, CommonShareTest, testing::Values(0.0F, 0.7F, 1.6F));

TEST(CommonShareTest, LengthensByWhatAveragingTakesAway) {
  EXPECT_NEAR(World(1, 0).seen_by(0).lengthening(kRanks), 1, 1e-3);
  EXPECT_NEAR(World(0, 0).seen_by(0).lengthening(kRanks), std::sqrt(kRanks), 0.05);
  EXPECT_NEAR(World(0.3, 0).seen_by(0).lengthening(kRanks), 1 / std::sqrt(0.3 + 0.7 / kRanks),
              0.05);
}

TEST(CommonShareTest, LearnsOverExchanges) {
  const World world(0.2, 0);
  EXPECT_GT(world.seen_by(0, 1).value(), world.seen_by(0, 10).value());
  EXPECT_GT(world.seen_by(0, 10).value(), world.seen_by(0, 100).value());
}

TEST(CommonShareTest, TakesASample) {
  const World world(0.3, 0);
  CommonShare share;
  for (int i = 0; i < 100; ++i)
    share.note({.result = world.result, .own_part = world.own[0], .residual = world.residual[0]},
               kRanks, 4);
  EXPECT_NEAR(share.value(), 0.3, 0.06);
}

TEST(CommonShareTest, PassesOverWhatWasTrimmed) {
  World world(0.3, 0);
  for (std::size_t i = 0; i < kEntries; i += 2) world.result[i] = 0;
  EXPECT_NEAR(world.seen_by(0).value(), 0.3, 0.04);
}

TEST(CommonShareTest, LearnsNothingFromNonsense) {
  const World world(0.3, 0);
  CommonShare share = world.seen_by(0);
  const double before = share.value();
  std::vector<float> broken = world.result;
  broken[5] = NAN;
  share.note({.result = broken, .own_part = world.own[0], .residual = world.residual[0]}, kRanks,
             1);
  const std::vector<float> nothing(kEntries);
  share.note({.result = nothing, .own_part = nothing, .residual = nothing}, kRanks, 1);
  EXPECT_EQ(share.value(), before);
}

}  // namespace
}  // namespace pliant::engine
