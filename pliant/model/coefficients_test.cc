// SPDX-License-Identifier: MIT
#include "pliant/model/coefficients.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pliant/model/exchange.h"
#include "pliant/plan/candidates.h"
#include "pliant/plan/density.h"
#include "tests/support/load.h"

namespace pliant::model {
namespace {

constexpr std::size_t kLength = 1'000'003;

// Every wire that candidates try, once: codes and densities change the sizes of blocks only.
std::vector<plan::Plan> wires(int size) {
  plan::Pins pins;
  pins.kind = plan::Kind::kGradients;
  pins.fuse = plan::Fusion::kAll;
  std::vector<plan::Plan> all;
  for (plan::Plan& plan : plan::candidates(size, {.pins = pins})) {
    const bool lossless = has_reduce(plan.scheme) && needs_f32(plan.reduce);
    const bool one_code = lossless || plan.values == plan::ValueCode::kF16;
    if (one_code && plan.leader == plan::Leader::kStar &&
        (plan.density == 0.01 || plan.scheme == plan::Scheme::kDense))
      all.push_back(plan);
  }
  return all;
}

double priced(const plan::Plan& plan, int size, const plan::Link& link) {
  return price_exchange(plan, kLength, plan::entries_of(plan.density, kLength),
                        plan::uniform_world(size, link))
      .value;
}

// Where the book says that an exchange is straight, two numbers give its price over any equal
// links.
TEST(PriceBook, GivesThePriceOfStraightExchanges) {
  PriceBook book;
  for (const int size : {2, 3, 5, 8, 13, 16, 32}) {
    int straight = 0;
    const auto all = wires(size);
    for (const plan::Plan& plan : all) {
      const Weight weight =
          book.weigh(plan, kLength, plan::entries_of(plan.density, kLength), size);
      if (weight.bend > 1e-3) continue;
      ++straight;
      for (const char* text : {"10mbit,50us", "100mbit,1ms", "1gbit,20ms", "10gbit,100us"}) {
        const plan::Link link = plan::parse_link(text);
        const double exact = priced(plan, size, link);
        EXPECT_NEAR(weight.over(link).value, exact, 0.012 * exact)
            << size << " ranks, " << text << ": " << to_string(plan);
      }
    }
    EXPECT_GT(straight, static_cast<int>(all.size()) / 3) << size;
  }
}

// The others, where messages meet at a port, are off by a quarter at worst, and always recognised.
TEST(PriceBook, IsNeverFarOff) {
  PriceBook book;
  for (const int size : {3, 6, 13, 24}) {
    for (const plan::Plan& plan : wires(size)) {
      const Weight weight =
          book.weigh(plan, kLength, plan::entries_of(plan.density, kLength), size);
      for (const char* text : {"10mbit,50us", "100mbit,1ms", "1gbit,20ms"}) {
        const plan::Link link = plan::parse_link(text);
        const double ratio = weight.over(link).value / priced(plan, size, link);
        EXPECT_GT(ratio, 0.75) << size << " ranks, " << text << ": " << to_string(plan);
        EXPECT_LT(ratio, 1.25) << size << " ranks, " << text << ": " << to_string(plan);
      }
    }
  }
}

// More segments than were ever played.
TEST(PriceBook, LongPipelinesFollowFromShortOnes) {
  PriceBook book;
  const plan::Link link = plan::parse_link("1gbit,1ms");
  for (const char* bcast : {"chain", "double-tree"}) {
    for (const int segments : {9, 16, 33, 64}) {
      const auto plan = plan::parse_plan(
          fmt::format("gradients shared bcast={} segments={} reduce=ring density=10% values=int8",
                      bcast, segments));
      const double exact =
          price_exchange(plan, kLength, kLength / 10, plan::uniform_world(16, link)).value;
      EXPECT_NEAR(book.weigh(plan, kLength, kLength / 10, 16).over(link).value, exact, 0.04 * exact)
          << bcast << " " << segments;
    }
  }
}

// Beyond kPlayedRanks stages are added and rings are not played; at the border both ways agree.
TEST(PriceBook, ClosedFormsTakeOverWhereNothingIsPlayed) {
  const plan::Link link = plan::parse_link("1gbit,1ms");
  PriceBook book;
  for (const char* text : {"gradients dense reduce=ring", "gradients dense reduce=halving-doubling",
                           "gradients union density=1%", "gradients union gather=ring density=1%",
                           "gradients srs scatter=direct density=1%"}) {
    const auto plan = plan::parse_plan(text);
    const std::size_t kept = plan::entries_of(plan.density, kLength);
    const int size = kPlayedRanks + 1;
    const double exact = price_exchange(plan, kLength, kept, plan::uniform_world(size, link)).value;
    EXPECT_NEAR(book.weigh(plan, kLength, kept, size).over(link).value, exact, 0.01 * exact)
        << text;
  }
}

TEST(PriceBook, CountsWhatTheBusiestRankSends) {
  PriceBook book;
  for (const int size : {2, 5, 8}) {
    for (const plan::Plan& plan : wires(size)) {
      const std::size_t kept = plan::entries_of(plan.density, kLength);
      double most = 0;
      for (int rank = 0; rank < size; ++rank) {
        double bytes = 0;
        for (const Stage& stage : stages(plan, kLength, kept, size))
          bytes += testing::load(stage, rank).bytes;
        most = std::max(most, bytes);
      }
      // Stages are counted each for its own busiest rank.
      const double sent = book.weigh(plan, kLength, kept, size).sent_bytes;
      EXPECT_GE(sent, 0.999 * most) << to_string(plan);
      EXPECT_LE(sent, (plan.scheme == plan::Scheme::kShared ? 1.6 : 1.01) * most)
          << to_string(plan);
    }
  }
}

TEST(PriceBook, AnswersTheSameHoweverItGrew) {
  PriceBook grown;
  for (const plan::Plan& plan : wires(8)) (void)grown.weigh(plan, kLength, kLength / 100, 8);
  for (const plan::Plan& plan : wires(8)) {
    PriceBook fresh;
    EXPECT_EQ(fresh.weigh(plan, kLength, kLength / 100, 8).bytes,
              grown.weigh(plan, kLength, kLength / 100, 8).bytes);
  }
}

}  // namespace
}  // namespace pliant::model
