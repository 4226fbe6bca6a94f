// SPDX-License-Identifier: MIT
#include "pliant/schedule/schedule.h"

#include <gtest/gtest.h>

#include <numeric>

#include "pliant/common/errors.h"
#include "pliant/schedule/catalogue.h"
#include "pliant/schedule/draw.h"
#include "tests/support/play.h"

namespace pliant::schedule {
namespace {

using testing::Expressions;
using testing::Holdings;
using testing::kNothing;

std::vector<int> sizes() {
  std::vector<int> all(33);
  std::iota(all.begin(), all.end(), 1);
  all.insert(all.end(), {64, 100});
  return all;
}

std::set<int> all_ranks(int size) {
  std::set<int> all;
  for (int r = 0; r < size; ++r) all.insert(r);
  return all;
}

std::string name(const Builder& builder) {
  return std::string(to_string(builder.collective)) + " " + std::string(builder.name);
}

// Messages and blocks that the busiest rank sends.
struct Traffic {
  int rounds = 0;
  int blocks = 0;
};
Traffic busiest(const std::vector<Schedule>& ranks) {
  Traffic most{.rounds = static_cast<int>(ranks.front().size())};
  for (const Schedule& schedule : ranks) {
    int blocks = 0;
    for (const Round& round : schedule) {
      for (const Move& move : round.sends) blocks += static_cast<int>(move.blocks.size());
    }
    most.blocks = std::max(most.blocks, blocks);
  }
  return most;
}

// Who holds what at the start: everyone's own part of everything, everyone its own block, or the
// root everything.
Holdings start(const Builder& builder, const Shape& shape, Expressions& expressions) {
  const int blocks = builder.blocks(shape);
  Holdings held(static_cast<std::size_t>(shape.size),
                std::vector<int>(static_cast<std::size_t>(blocks), kNothing));
  for (int r = 0; r < shape.size; ++r) {
    for (int b = 0; b < blocks; ++b) {
      const bool holds = builder.collective == Collective::kBroadcast   ? r == shape.root
                         : builder.collective == Collective::kAllGather ? r == b
                                                                        : true;
      if (holds)
        held[static_cast<std::size_t>(r)][static_cast<std::size_t>(b)] =
            expressions.contribution(r);
    }
  }
  return held;
}

void expect_complete(const Builder& builder, const Shape& shape) {
  SCOPED_TRACE(::testing::Message() << name(builder) << " N=" << shape.size
                                    << " root=" << shape.root << " segments=" << shape.segments);
  Expressions expressions;
  const Holdings held =
      testing::play(build_all(builder, shape), start(builder, shape, expressions), expressions);
  for (int b = 0; b < builder.blocks(shape); ++b) {
    const auto at = [&](int rank) {
      return held[static_cast<std::size_t>(rank)][static_cast<std::size_t>(b)];
    };
    if (builder.collective == Collective::kReduceScatter) {
      EXPECT_EQ(expressions.ranks(at(b)), all_ranks(shape.size)) << "block " << b;
      continue;
    }
    for (int r = 0; r < shape.size; ++r) {
      ASSERT_NE(at(r), kNothing) << "rank " << r << " block " << b;
      EXPECT_EQ(at(r), at(0)) << "rank " << r << " holds another sum of block " << b;
    }
    const std::set<int> wanted =
        builder.collective == Collective::kAllReduce   ? all_ranks(shape.size)
        : builder.collective == Collective::kAllGather ? std::set<int>{b}
                                                       : std::set<int>{shape.root};
    EXPECT_EQ(expressions.ranks(at(0)), wanted) << "block " << b;
  }
}

TEST(Schedules, EveryBlockArrivesCompleteOnceAndSummedAlikeEverywhere) {
  for (const Builder& builder : builders()) {
    for (int size : sizes()) {
      for (int segments : builder.segmented ? std::vector<int>{1, 2, 3, 8} : std::vector<int>{1}) {
        const bool rooted = builder.collective == Collective::kBroadcast;
        for (int root : rooted ? std::vector<int>{0, size / 2, size - 1} : std::vector<int>{0})
          expect_complete(builder, {size, root, segments});
      }
    }
  }
}

TEST(Schedules, RoundsAndBlocksAreWhatTheorySays) {
  for (int size : sizes()) {
    const int log = ceil_log2(size);
    const auto expect = [&](Collective collective, const char* builder_name, int rounds, int blocks,
                            int segments = 1) {
      const Builder& builder = find_builder(collective, builder_name);
      const Traffic traffic = busiest(build_all(builder, {size, 0, segments}));
      EXPECT_EQ(traffic.rounds, rounds) << name(builder) << " N=" << size;
      EXPECT_EQ(traffic.blocks, blocks) << name(builder) << " N=" << size;
    };
    expect(Collective::kReduceScatter, "ring", size - 1, size - 1);
    expect(Collective::kReduceScatter, "halving", log, size - 1);
    expect(Collective::kReduceScatter, "circulant", log, size - 1);
    expect(Collective::kReduceScatter, "direct", size > 1 ? 1 : 0, size - 1);
    expect(Collective::kAllGather, "ring", size - 1, size - 1);
    expect(Collective::kAllGather, "recursive-doubling", log, size - 1);
    expect(Collective::kAllGather, "bruck", log, size - 1);
    expect(Collective::kBroadcast, "binomial", log, log);
    if (size > 1) expect(Collective::kBroadcast, "chain", size - 2 + 5, 5, 5);
    expect(Collective::kAllReduce, "ring", 2 * (size - 1), 2 * (size - 1));
    expect(Collective::kAllReduce, "halving-doubling", 2 * log, 2 * (size - 1));
    const bool power = is_power_of_two(size);
    expect(Collective::kAllReduce, "recursive-doubling", power ? log : log + 1, log);
    expect(Collective::kAllReduce, "tree", 2 * log, log);
  }
}

TEST(ScatterAllGatherBroadcast, TheRootSendsEachBlockOnceInTheScatter) {
  for (int size : sizes()) {
    const Schedule root =
        find_builder(Collective::kBroadcast, "scatter-allgather").build(0, {size});
    EXPECT_EQ(static_cast<int>(root.size()), 2 * ceil_log2(size));
    std::size_t scattered = 0;
    for (int r = 0; r < ceil_log2(size); ++r) {
      for (const Move& move : root[static_cast<std::size_t>(r)].sends)
        scattered += move.blocks.size();
    }
    EXPECT_EQ(static_cast<int>(scattered), size - 1);
  }
}

TEST(DoubleTreeBroadcast, NobodySendsOrReceivesTwiceInARoundAndTheTailIsShort) {
  const int segments = 16;
  for (int size : sizes()) {
    if (size == 1) continue;
    for (const Schedule& schedule :
         build_all(find_builder(Collective::kBroadcast, "double-tree"), {size, 0, segments})) {
      // Each level of a tree delays by one or two rounds; the tree over N-1 ranks has at most
      // ceil(log2 N) levels.
      EXPECT_LE(static_cast<int>(schedule.size()), segments + 2 * ceil_log2(size)) << "N=" << size;
      for (const Round& round : schedule) {
        EXPECT_LE(round.sends.size(), 1U);
        EXPECT_LE(round.receives.size(), 1U);
      }
    }
  }
}

TEST(Schedules, ABadRankRootOrSegmentCountIsRefused) {
  for (const Builder& builder : builders()) {
    EXPECT_THROW((void)builder.build(4, {4}), ContractError) << name(builder);
    EXPECT_THROW((void)builder.build(-1, {4}), ContractError) << name(builder);
  }
  EXPECT_THROW((void)find_builder(Collective::kBroadcast, "chain").build(0, {4, 4, 1}),
               ContractError);
  EXPECT_THROW((void)find_builder(Collective::kBroadcast, "chain").build(0, {4, 0, 0}),
               ContractError);
}

TEST(Catalogue, AnUnknownNameIsAnsweredWithTheNearestOne) {
  try {
    (void)find_builder(Collective::kAllReduce, "halfing-doubling");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "no all-reduce is called 'halfing-doubling' (did you mean 'halving-doubling'?)");
  }
}

TEST(Draw, ShowsWhoSendsWhatToWhom) {
  EXPECT_EQ(
      draw(build_all(find_builder(Collective::kAllReduce, "halving-doubling"), {4})),
      "round   rank 0                rank 1                rank 2                rank 3\n"
      "1       >2 [2-3]  <2 +[0-1]   >3 [2-3]  <3 +[0-1]   >0 [0-1]  <0 +[2-3]   >1 [0-1]  <1 "
      "+[2-3]\n"
      "2       >1 [1]  <1 +[0]       >0 [0]  <0 +[1]       >3 [3]  <3 +[2]       >2 [2]  <2 +[3]\n"
      "3       >1 [0]  <1 [1]        >0 [1]  <0 [0]        >3 [2]  <3 [3]        >2 [3]  <2 [2]\n"
      "4       >2 [0-1]  <2 [2-3]    >3 [0-1]  <3 [2-3]    >0 [2-3]  <0 [0-1]    >1 [2-3]  <1 "
      "[0-1]\n");
}

}  // namespace
}  // namespace pliant::schedule
