// SPDX-License-Identifier: MIT
#include "pliant/model/exchange.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/plan/code_sizes.h"
#include "pliant/plan/density.h"
#include "pliant/plan/segments.h"
#include "tests/support/load.h"

namespace pliant::model {
namespace {

constexpr std::size_t kLength = 25'560'000;
constexpr double kDensity = 0.01;
constexpr std::size_t kKept = 255'600;
const plan::Link kLink = plan::link_of(from_bits_per_second(10e9), {1e-3});

double priced(const char* text, int size, const plan::Link& link = kLink) {
  return price_exchange(plan::parse_plan(text), kLength, kKept, plan::uniform_world(size, link))
      .value;
}

// The published formulas for its three schemes, in its formats. Ours add a header of 64 bytes to
// each payload.
TEST(PriceExchange, EqualsThePublishedFormulas) {
  const double a = kLink.latency.value;
  const double mcb = 4 * kLength * kDensity * kLink.seconds_per_byte;
  for (const int size : {2, 4, 8, 16, 32}) {
    const double n = size;
    const double log = std::log2(n);
    const double gathered =
        priced("gradients union gather=bruck density=1% values=f32 indices=raw32", size);
    EXPECT_NEAR(gathered, log * a + 2 * mcb * (n - 1), 2e-3 * gathered);
    const double ring = priced(
        "gradients shared/star bcast=binomial reduce=ring density=1% values=f32 indices=raw32",
        size);
    EXPECT_NEAR(ring, a * (2 * (n - 1) + log) + mcb * (2 * (n - 1) / n + log), 2e-3 * ring);
    const double tree = priced(
        "gradients shared/star bcast=binomial reduce=tree density=1% values=f32 indices=raw32",
        size);
    EXPECT_NEAR(tree, 3 * log * a + 3 * log * mcb, 2e-3 * tree);
  }
}

TEST(PriceExchange, DenseIsTheAllReduceAndTheEnginesIsTakenForHalvingDoubling) {
  const double bytes = 4.0 * kLength;
  EXPECT_NEAR(priced("gradients dense reduce=ring", 8),
              14 * 1e-3 + 2 * 7.0 / 8 * bytes * kLink.seconds_per_byte, 1e-6);
  EXPECT_EQ(priced("gradients dense", 8), priced("gradients dense reduce=halving-doubling", 8));
  EXPECT_LT(priced("gradients dense reduce=ring values=f16", 8),
            0.6 * priced("gradients dense reduce=ring", 8));
}

TEST(PriceExchange, NothingTravelsAmongOneRank) {
  for (const char* text : {"gradients dense", "gradients union density=1%",
                           "gradients shared density=1%", "gradients srs density=1%"}) {
    EXPECT_EQ(priced(text, 1), 0) << text;
  }
}

// srs trims before every hop, so its bytes are those of two passes over k entries however many
// ranks there are.
TEST(PriceExchange, SrsDoesNotGrowWithTheRanks) {
  const plan::Link fast = plan::link_of(from_bits_per_second(10e9), {0});
  for (const char* text : {"gradients srs scatter=direct density=1% values=f16",
                           "gradients srs scatter=circulant density=1% values=f16"}) {
    EXPECT_LT(priced(text, 256, fast), 1.3 * priced(text, 8, fast)) << text;
  }
}

TEST(Stages, AreNamedCutAndSizedAsTheExchangeRunsThem) {
  const auto plan = plan::parse_plan(
      "gradients shared/star bcast=chain segments=7 reduce=tree density=1% values=int4");
  const auto all = stages(plan, kLength, kKept, 5, 3);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].what, "indices");
  EXPECT_EQ(all[0].builder->name, "chain");
  EXPECT_EQ(all[0].shape.root, 3);
  ASSERT_EQ(all[0].block_bytes.size(), 7U);
  double total = 0;
  for (const double bytes : all[0].block_bytes) total += bytes;
  EXPECT_EQ(total, static_cast<double>(encoded_estimate(kLength, kKept, {plan.indices, plan.values},
                                                        plan::Contents::kIndices)
                                           .value));
  ASSERT_EQ(all[1].block_bytes.size(), 1U);
  EXPECT_EQ(all[1].block_bytes[0],
            static_cast<double>(plan::kPayloadHeaderBytes +
                                plan::value_stream_bytes(plan.values, kKept)));
  // The root sends every segment once; each message also has 8 bytes that tell the length.
  EXPECT_EQ(testing::load(all[0], 3).messages, 7);
  EXPECT_EQ(testing::load(all[0], 3).bytes, total + 7 * 8);
}

TEST(Stages, SegmentsLeftOutFollowTheRule) {
  const auto plan = plan::parse_plan("gradients shared/star bcast=double-tree density=1%");
  const auto payload =
      encoded_estimate(kLength, kKept, {plan.indices, plan.values}, plan::Contents::kIndices);
  EXPECT_EQ(stages(plan, kLength, kKept, 8)[0].shape.segments, plan::default_segments(payload));
  EXPECT_EQ(plan::default_segments({64}), 1);
  EXPECT_EQ(plan::default_segments({1 << 20}), 20);
}

TEST(Stages, RefuseWhatCannotBe) {
  EXPECT_THROW((void)stages({}, 10, 11, 2), ContractError);
  EXPECT_THROW((void)stages({}, 10, 1, 2, 2), ContractError);
}

}  // namespace
}  // namespace pliant::model
