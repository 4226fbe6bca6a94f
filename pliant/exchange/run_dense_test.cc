// SPDX-License-Identifier: MIT
#include "pliant/exchange/run_dense.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "pliant/common/errors.h"
#include "pliant/common/split.h"
#include "tests/support/run_ranks.h"

namespace pliant::exchange {
namespace {

using schedule::Collective;

std::vector<float> contribution(int rank, std::size_t n, unsigned seed = 0) {
  std::mt19937 random(static_cast<unsigned>(rank) * 7919 + seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

Buffer<float> to_buffer(const std::vector<float>& values) {
  const Buffer<float> buffer(values.size());
  std::ranges::copy(values, buffer.span().begin());
  return buffer;
}

using Results = std::vector<std::vector<float>>;  // by rank

Results everyone(int size, const schedule::Builder& builder, const schedule::Shape& shape,
                 const std::function<std::vector<float>(int)>& input) {
  Results results(static_cast<std::size_t>(size));
  testing::run_ranks(std::string(builder.name), size, [&](comm::Communicator& c) {
    Workspace workspace;
    const Buffer<float> data = to_buffer(input(c.rank()));
    (void)run_dense(c, builder, shape, data, workspace, {.deadline = Seconds{30}});
    results[static_cast<std::size_t>(c.rank())].assign(data.span().begin(), data.span().end());
  });
  return results;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TEST(AllReduce, EveryRankEndsWithTheSameSumInEveryRun) {
  for (const auto& builder : schedule::builders()) {
    if (builder.collective != Collective::kAllReduce) continue;
    for (const int size : {1, 2, 3, 4, 5, 7, 8, 13}) {
      for (const std::size_t n : {0UL, 1UL, 7UL, 64UL, 4099UL}) {
        SCOPED_TRACE(::testing::Message() << builder.name << " N=" << size << " n=" << n);
        const auto input = [n](int rank) { return contribution(rank, n); };
        const Results first = everyone(size, builder, {size}, input);
        const Results second = everyone(size, builder, {size}, input);
        for (const auto& result : first) EXPECT_TRUE(same_bits(result, first[0]));
        EXPECT_TRUE(same_bits(first[0], second[0]));
        Results inputs;
        for (int r = 0; r < size; ++r) inputs.push_back(input(r));
        for (std::size_t i = 0; i < n; ++i) {
          double sum = 0;
          double magnitude = 0;
          for (const auto& values : inputs) {
            sum += values[i];
            magnitude += std::abs(values[i]);
          }
          // N-1 additions, each rounding by at most half a unit in the last place of at most
          // `magnitude`.
          ASSERT_NEAR(first[0][i], sum, magnitude * (size - 1) * 0x1p-24) << i;
        }
      }
    }
  }
}

TEST(Broadcast, EveryRankEndsWithTheRootsBits) {
  for (const auto& builder : schedule::builders()) {
    if (builder.collective != Collective::kBroadcast) continue;
    for (const int size : {1, 2, 3, 6, 8}) {
      const int root = size / 2;
      const Results results = everyone(size, builder, {size, root, 5},
                                       [](int rank) { return contribution(rank, 1003); });
      for (const auto& result : results)
        EXPECT_TRUE(same_bits(result, contribution(root, 1003))) << builder.name << " N=" << size;
    }
  }
}

TEST(AllGather, EveryBlockIsItsOwners) {
  const std::size_t n = 1003;
  for (const auto& builder : schedule::builders()) {
    if (builder.collective != Collective::kAllGather) continue;
    for (const int size : {1, 2, 3, 6, 8}) {
      std::vector<float> expected(n);
      const auto begins = split_points(n, static_cast<std::size_t>(size));
      for (int r = 0; r < size; ++r) {
        const auto from = contribution(r, n);
        for (std::size_t i = begins[static_cast<std::size_t>(r)];
             i < begins[static_cast<std::size_t>(r) + 1]; ++i)
          expected[i] = from[i];
      }
      for (const auto& result :
           everyone(size, builder, {size}, [n](int rank) { return contribution(rank, n); })) {
        EXPECT_TRUE(same_bits(result, expected)) << builder.name << " N=" << size;
      }
    }
  }
}

TEST(ReduceScatter, EveryOwnerEndsWithTheSumOfItsBlock) {
  const std::size_t n = 1003;
  for (const auto& builder : schedule::builders()) {
    if (builder.collective != Collective::kReduceScatter) continue;
    for (const int size : {1, 2, 3, 6, 8}) {
      const Results results =
          everyone(size, builder, {size}, [n](int rank) { return contribution(rank, n); });
      const auto begins = split_points(n, static_cast<std::size_t>(size));
      Results inputs;
      for (int r = 0; r < size; ++r) inputs.push_back(contribution(r, n));
      for (int r = 0; r < size; ++r) {
        for (std::size_t i = begins[static_cast<std::size_t>(r)];
             i < begins[static_cast<std::size_t>(r) + 1]; ++i) {
          double sum = 0;
          for (const auto& values : inputs) sum += values[i];
          ASSERT_NEAR(results[static_cast<std::size_t>(r)][i], sum, 1e-5)
              << builder.name << " N=" << size << " i=" << i;
        }
      }
    }
  }
}

// Each rank has NaNs of its own making, infinities of both signs, and zeros of both signs.
TEST(AllReduce, NaNIsCanonicalAndTheSameEverywhere) {
  const auto input = [](int rank) {
    const auto nan_of_rank = std::bit_cast<float>(0xFFC01234U + static_cast<unsigned>(rank));
    const float infinity = rank % 2 == 0 ? std::numeric_limits<float>::infinity()
                                         : -std::numeric_limits<float>::infinity();
    return std::vector<float>{nan_of_rank, rank == 1 ? nan_of_rank : 1.0F, infinity, -0.0F, 1.0F};
  };
  for (const auto& builder : schedule::builders()) {
    if (builder.collective != Collective::kAllReduce) continue;
    for (const int size : {2, 3, 4, 7}) {
      for (const auto& result : everyone(size, builder, {size}, input)) {
        for (const std::size_t i : {0U, 1U, 2U})
          EXPECT_EQ(std::bit_cast<std::uint32_t>(result[i]), 0x7FC00000U)
              << builder.name << " N=" << size << " i=" << i;
        EXPECT_EQ(std::bit_cast<std::uint32_t>(result[3]), 0x80000000U);
        EXPECT_EQ(result[4], static_cast<float>(size));
      }
    }
  }
}

TEST(AllReduce, WorksOnMemoryWithoutAnOwnerAndReusesItsWorkspace) {
  testing::run_ranks("unowned", 3, [](comm::Communicator& c) {
    Workspace workspace;
    std::size_t capacity = 0;
    for (int repeat = 0; repeat < 4; ++repeat) {
      std::vector<float> data(1000, 1.0F);
      (void)all_reduce(c, std::span<float>(data), "ring", workspace);
      EXPECT_EQ(data, std::vector<float>(1000, 3.0F));
      if (repeat > 1) {
        EXPECT_EQ(workspace.capacity(), capacity);
      }
      capacity = workspace.capacity();
    }
  });
}

TEST(AllReduce, CountsWhatItSends) {
  testing::run_ranks("traffic", 4, [](comm::Communicator& c) {
    Workspace workspace;
    const Traffic traffic = all_reduce(c, Buffer<float>(1000), "halving-doubling", workspace);
    EXPECT_EQ(traffic.sent.value, 2 * 750 * 4);
    EXPECT_EQ(traffic.messages, 4);
    EXPECT_GE(traffic.finished, traffic.entered);
  });
}

// Rank 2 leaves before the exchange: whoever needs it learns so, and nobody hangs.
TEST(AllReduce, ALostPeerIsAnErrorOnEveryRankThatNeedsIt) {
  for (const char* name : {"ring", "halving-doubling", "recursive-doubling", "tree"}) {
    std::atomic<int> told = 0;
    testing::run_leaving_ranks("lost peer", 4, [&](std::unique_ptr<comm::Communicator>& c) {
      if (c->rank() == 2) return c.reset();
      Workspace workspace;
      EXPECT_THROW(
          (void)all_reduce(*c, Buffer<float>(64), name, workspace, {.deadline = Seconds{20}}),
          comm::CommError)
          << name;
      ++told;
      c.reset();  // dead, so gone for the others too
    });
    EXPECT_EQ(told, 3);
  }
}

TEST(RunDense, RefusesAScheduleOfAnotherSize) {
  testing::run_ranks("size", 2, [](comm::Communicator& c) {
    Workspace workspace;
    const auto& ring = schedule::find_builder(Collective::kAllReduce, "ring");
    EXPECT_THROW((void)run_dense(c, ring, {3}, Buffer<float>(8), workspace), ContractError);
  });
}

}  // namespace
}  // namespace pliant::exchange
