// SPDX-License-Identifier: MIT
#include "pliant/plan/candidates.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "pliant/common/errors.h"
#include "pliant/plan/density.h"
#include "tests/arbitrary_plan.h"
#include "tests/support/matches.h"

namespace pliant::plan {
namespace {

int count(const std::vector<Plan>& plans, Kind kind, Scheme scheme) {
  return static_cast<int>(std::ranges::count_if(
      plans, [&](const Plan& plan) { return plan.kind == kind && plan.scheme == scheme; }));
}

// Counted by hand, rule by rule, from the words of docs/plans.md and not from the code.
TEST(Candidates, AreAsManyAsTheRulesLeave) {
  constexpr int kEightDensities = 8;
  constexpr int kSparseCodes = 3;    // f16, int8, int4, each with rice
  constexpr int kThreeFusions = 3;   // bucket, 2, all
  constexpr int kRhythms = 4 * 4;    // every x late
  constexpr int kSharedRhythms = 4;  // every; late=0
  constexpr int kSparse = kEightDensities * kSparseCodes;
  constexpr int kUnion = kSparse + kSparseCodes;  // at 100 % too
  for (const int size : {3, 4, 6, 8, 64, 100}) {
    const auto plans = candidates(size);
    constexpr int kDense = 3 * 4 + 1 + 1;  // ring, halving-doubling, tree in each code; recursive
                                           // doubling and the backend's own in f32
    constexpr int kGathers = 2;            // ring, bruck
    constexpr int kScatters = 2;           // halving or circulant; direct
    constexpr int kBcasts = 4;
    constexpr int kLossyReduces = 3;  // ring, halving-doubling, tree
    constexpr int kShared =
        2 * kBcasts *
        (kLossyReduces * kSparse + kEightDensities);  // star and var; recursive doubling in f32
    EXPECT_EQ(count(plans, Kind::kGradients, Scheme::kDense), kDense * kThreeFusions);
    EXPECT_EQ(count(plans, Kind::kGradients, Scheme::kUnion), kGathers * kUnion * kThreeFusions);
    EXPECT_EQ(count(plans, Kind::kGradients, Scheme::kShared), kShared * kThreeFusions);
    EXPECT_EQ(count(plans, Kind::kGradients, Scheme::kSrs),
              kScatters * kGathers * kSparse * kThreeFusions);
    EXPECT_EQ(count(plans, Kind::kUpdates, Scheme::kDense), kDense * kRhythms);
    EXPECT_EQ(count(plans, Kind::kUpdates, Scheme::kUnion), kGathers * kUnion * kRhythms);
    EXPECT_EQ(count(plans, Kind::kUpdates, Scheme::kShared), kShared * kSharedRhythms);
    EXPECT_EQ(count(plans, Kind::kUpdates, Scheme::kSrs),
              kScatters * kGathers * kSparse * kRhythms);
    EXPECT_EQ(plans.size(), 7596U) << size << " ranks";
  }
  const auto pair = candidates(2);  // one builder per stage; all-reduce: the backend's own,
                                    // halving-doubling, recursive doubling
  EXPECT_EQ(count(pair, Kind::kGradients, Scheme::kDense), (1 + 4 + 1) * kThreeFusions);
  EXPECT_EQ(count(pair, Kind::kGradients, Scheme::kUnion), kUnion * kThreeFusions);
  EXPECT_EQ(count(pair, Kind::kGradients, Scheme::kShared),
            2 * (kSparse + kEightDensities) * kThreeFusions);
  EXPECT_EQ(count(pair, Kind::kGradients, Scheme::kSrs), kSparse * kThreeFusions);
  EXPECT_EQ(count(pair, Kind::kUpdates, Scheme::kDense), (1 + 4 + 1) * kRhythms);
  EXPECT_EQ(count(pair, Kind::kUpdates, Scheme::kUnion), kUnion * kRhythms);
  EXPECT_EQ(count(pair, Kind::kUpdates, Scheme::kShared),
            2 * (kSparse + kEightDensities) * kSharedRhythms);
  EXPECT_EQ(count(pair, Kind::kUpdates, Scheme::kSrs), kSparse * kRhythms);
}

// The same set a second way: every combination of all words, filtered by one predicate per rule.
TEST(Candidates, AreAllCombinationsMinusTheRules) {
  for (const int size : {2, 5, 8}) {
    std::set<std::string> expected;
    const bool pair = size == 2;
    const bool power_of_two = size != 5;
    const auto add = [&](const Plan& p) {
      const bool sparse = p.scheme != Scheme::kDense;
      const bool f32_only =
          (p.scheme == Scheme::kDense || p.scheme == Scheme::kShared) &&
          (p.reduce == AllReduce::kBackend || p.reduce == AllReduce::kRecursiveDoubling);
      if (f32_only != (p.values == ValueCode::kF32) && (f32_only || sparse)) return;
      if (p.scheme == Scheme::kShared && (p.late > 0 || p.reduce == AllReduce::kBackend)) return;
      if (has_gather(p.scheme) && p.gather == AllGather::kRecursiveDoubling) return;
      if (has_scatter(p.scheme) &&
          p.scatter == (power_of_two ? ReduceScatter::kCirculant : ReduceScatter::kHalving))
        return;
      if (pair && has_gather(p.scheme) && p.gather != AllGather::kBruck) return;
      if (pair && has_scatter(p.scheme) && p.scatter != ReduceScatter::kDirect) return;
      if (pair && has_bcast(p.scheme) && p.bcast != Broadcast::kBinomial) return;
      if (pair && has_reduce(p.scheme) &&
          (p.reduce == AllReduce::kRing || p.reduce == AllReduce::kTree))
        return;
      expected.insert(to_string(p));
    };
    // Parts that a scheme does not have are looped over too: the text leaves them out, the set
    // removes the repeats.
    const auto add_all_stages = [&](Plan p) {
      for (const ReduceScatter scatter : kReduceScatters) {
        for (const AllGather gather : kAllGathers) {
          for (const Broadcast bcast : kBroadcasts) {
            for (const AllReduce reduce : kAllReduces) {
              if (!has_scatter(p.scheme) && scatter != Plan{}.scatter) continue;
              if (!has_gather(p.scheme) && gather != Plan{}.gather) continue;
              if (!has_bcast(p.scheme) && bcast != Plan{}.bcast) continue;
              if (!has_reduce(p.scheme) && reduce != Plan{}.reduce) continue;
              p.scatter = scatter, p.gather = gather, p.bcast = bcast, p.reduce = reduce;
              for (const double density : kDensities) {
                for (const ValueCode values : kValueCodes) {
                  if (values == ValueCode::kInt2) continue;  // only where it is pinned
                  if (p.scheme == Scheme::kDense ? density != 1
                                                 : density == 1 && p.scheme != Scheme::kUnion)
                    continue;
                  p.density = density, p.values = values;
                  add(p);
                }
              }
            }
          }
        }
      }
    };
    for (const Scheme scheme : kSchemes) {
      for (const Leader leader : kLeaders) {
        if (scheme != Scheme::kShared && leader == Leader::kVar) continue;
        for (const Fusion fuse : kFusions)
          add_all_stages({.scheme = scheme, .leader = leader, .fuse = fuse});
        for (const int every : {1, 2, 4, 8}) {
          for (const int late : {0, 1, 2, 4})
            add_all_stages({.kind = Kind::kUpdates,
                            .every = every,
                            .late = late,
                            .scheme = scheme,
                            .leader = leader});
        }
      }
    }
    std::set<std::string> got;
    for (const Plan& plan : candidates(size)) got.insert(to_string(plan));
    EXPECT_EQ(got, expected) << size << " ranks";
  }
}

TEST(Candidates, OfOneRankAreDense) {
  const auto plans = candidates(1);
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0], Plan{});
  EXPECT_EQ(plans[1], Plan{.kind = Kind::kUpdates});
  for (const Plan& plan : candidates(1, {.pins = parse_pins("union density=1%")}))
    EXPECT_EQ(plan.scheme, Scheme::kUnion);
}

TEST(Candidates, BeginWithPlainDdp) {
  for (const int size : {1, 2, 3, 8, 512}) EXPECT_EQ(candidates(size).front(), Plan{}) << size;
}

TEST(Candidates, AreDifferentAndLegal) {
  for (int size = 1; size <= 9; ++size) {
    std::set<std::uint64_t> hashes;
    const auto plans = candidates(size);
    for (const Plan& plan : plans) {
      EXPECT_NO_THROW(check(plan));
      hashes.insert(hash(plan));
    }
    EXPECT_EQ(hashes.size(), plans.size()) << size << " ranks";
  }
}

RC_GTEST_PROP(Candidates, MatchThePinsWhateverTheyAre, (const Pins& pins)) {
  const int size = *rc::gen::inRange(1, 20);
  const auto plans = candidates(size, {.pins = pins});
  RC_ASSERT(!plans.empty());
  std::set<std::string> texts;
  for (const Plan& plan : plans) {
    RC_ASSERT(matches(plan, pins));
    RC_ASSERT(!contradiction(pins_of(plan)));
    texts.insert(to_string(plan));
  }
  RC_ASSERT(texts.size() == plans.size());
}

RC_GTEST_PROP(Candidates, PinningLosesNothingThatMatches, (const Pins& pins)) {
  const int size = *rc::gen::inRange(1, 10);
  std::set<std::string> texts;
  for (const Plan& plan : candidates(size, {.pins = pins})) texts.insert(to_string(plan));
  for (const Plan& plan : candidates(size))
    RC_ASSERT(!matches(plan, pins) || texts.contains(to_string(plan)));
}

RC_GTEST_PROP(Candidates, OfAWholePlanAreThatPlan, (const Plan& plan)) {
  const int size = *rc::gen::inRange(1, 20);
  RC_ASSERT(candidates(size, {.pins = pins_of(plan)}) == std::vector{plan});
}

TEST(Candidates, RespectWhatIsNotAtHand) {
  for (const Plan& plan : candidates(8, {.updates = false})) EXPECT_EQ(plan.kind, Kind::kGradients);
  for (const Plan& plan : candidates(8, {.backend_all_reduce = false})) {
    EXPECT_FALSE(has_reduce(plan.scheme) && plan.reduce == AllReduce::kBackend);
  }
  EXPECT_EQ(to_string(candidates(1, {.backend_all_reduce = false}).front()),
            "gradients dense reduce=halving-doubling values=f32 fuse=bucket");
  EXPECT_THROW((void)candidates(8, {.pins = parse_pins("updates"), .updates = false}), InputError);
  EXPECT_THROW((void)candidates(8, {.pins = parse_pins("late=1"), .updates = false}), InputError);
  EXPECT_THROW(
      (void)candidates(8, {.pins = parse_pins("reduce=backend"), .backend_all_reduce = false}),
      InputError);
  EXPECT_THROW((void)candidates(0), ContractError);
}

}  // namespace
}  // namespace pliant::plan
