// SPDX-License-Identifier: MIT
#include "pliant/comm/culprit.h"

#include <gtest/gtest.h>

namespace pliant::comm {
namespace {

std::vector<int> trail_of(const Findings& findings) {
  std::vector<int> ranks;
  for (const Wait& wait : findings.trail) ranks.push_back(wait.rank);
  return ranks;
}

TEST(Culprit, AChainLeadsToTheRankThatLeftNoWord) {
  const std::vector<Wait> waits = {{1, 0}, {3, 2}, {2, 1}};
  for (int asker = 1; asker <= 3; ++asker)
    EXPECT_EQ(follow(waits, asker, 4).silent, std::vector<int>{0}) << asker;
  EXPECT_EQ(trail_of(follow(waits, 3, 4)), (std::vector<int>{3, 2, 1}));
}

TEST(Culprit, ACircleHasNone) {
  const Findings found = follow(std::vector<Wait>{{0, 1}, {1, 2}, {2, 0}}, 1, 3);
  EXPECT_TRUE(found.silent.empty());
  EXPECT_EQ(trail_of(found), (std::vector<int>{1, 2, 0}));
  EXPECT_TRUE(follow(std::vector<Wait>{{3, 1}, {1, 2}, {2, 1}}, 3, 4).silent.empty())
      << "a circle that the asker is not in";
}

TEST(Culprit, IsThePeerWhereNobodyElseLeftAWord) {
  EXPECT_EQ(follow(std::vector<Wait>{{2, 1}}, 2, 4).silent, std::vector<int>{1});
  EXPECT_TRUE(follow({}, 2, 4).silent.empty()) << "nor the asker";
  EXPECT_TRUE(follow({}, 2, 4).trail.empty());
}

TEST(Culprit, OfSeveralIsTheOneThatTheAskerWaitsFor) {
  const std::vector<Wait> waits = {{1, 0}, {2, 3}};
  EXPECT_EQ(follow(waits, 1, 4).silent, std::vector<int>{0});
  EXPECT_EQ(follow(waits, 2, 4).silent, std::vector<int>{3});
}

TEST(Culprit, WhoeverAllReducesWaitsForEverybody) {
  EXPECT_EQ(follow(std::vector<Wait>{{0, -1}, {1, -1}, {3, -1}}, 0, 4).silent, std::vector<int>{2});
  EXPECT_EQ(follow(std::vector<Wait>{{0, -1}, {3, 1}}, 0, 4).silent, (std::vector<int>{1, 2}));
}

TEST(Culprit, AWordAboutARankThatDoesNotExistLeadsNowhere) {
  EXPECT_TRUE(follow(std::vector<Wait>{{0, 7}}, 0, 4).silent.empty());
  EXPECT_TRUE(follow(std::vector<Wait>{{0, 1}}, 9, 4).trail.empty());
}

TEST(Culprit, AWordSurvivesTheStore) {
  const auto back = parse_wait(to_string(
      Wait{.rank = 2, .peer = 1, .place = {.round = 3, .rounds = 6, .plan_version = 17}}));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_string(*back), "rank 2 waits for rank 1, round 3 of 6, plan version 17");
  EXPECT_EQ(parse_wait(to_string(Wait{.rank = 2}))->peer, -1);
  EXPECT_FALSE(parse_wait(""));
  EXPECT_FALSE(parse_wait("rank two waits"));
}

TEST(Culprit, IsInTheText) {
  const Failure failure{.rank = 3,
                        .peer = 2,
                        .bytes = {4096},
                        .receiving = true,
                        .reason = "no data",
                        .advice = "Raise it.",
                        .name = "10.0.0.4"};
  const Failure found =
      with_findings(failure, follow(std::vector<Wait>{{1, 0}, {3, 2}, {2, 1}}, 3, 4));
  EXPECT_EQ(found.culprit, 0);
  EXPECT_EQ(found.peer, 2);
  EXPECT_STREQ(
      CommError(found).what(),
      "rank 3: receiving 4 KiB from rank 2 (10.0.0.4): no data\n"
      "  All waits lead to rank 0, which reported nothing: check it first.\n"
      "  Asked: rank 3 waits for rank 2, rank 2 waits for rank 1, rank 1 waits for rank 0.\n"
      "  Raise it.");
  const Failure several = with_findings(failure, follow(std::vector<Wait>{{3, -1}, {0, -1}}, 3, 4));
  EXPECT_FALSE(several.culprit);
  EXPECT_NE(several.advice.find("Ranks 1, 2 reported nothing"), std::string::npos);
  EXPECT_NE(without_findings(failure, "no store").advice.find("could not be asked"),
            std::string::npos);
}

}  // namespace
}  // namespace pliant::comm
