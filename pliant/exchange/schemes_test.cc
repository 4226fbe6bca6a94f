// SPDX-License-Identifier: MIT
// What each scheme does, on cases small enough to follow by hand, and how a flight may travel.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "pliant/compress/residual.h"
#include "pliant/exchange/flight.h"
#include "tests/support/random_values.h"
#include "tests/support/run_ranks.h"

namespace pliant::exchange {
namespace {

using testing::random_values;
using testing::same_bits;

plan::Plan plan_of(const char* text) { return plan::parse_plan(text); }

TEST(Dense, FlushesAResidualThatWasThereFromTheStart) {
  testing::run_ranks("resumed", 2, [](comm::Communicator& c) {
    compress::Residual residual(10);
    std::ranges::fill(residual.span(), 5.0F);
    ResidualGroup group(residual.span());
    std::vector<float> gradient(10, 1.0F);
    (void)exchange(c, group, {.plan = plan_of("gradients dense")}, compress::Gradient{gradient},
                   gradient);
    EXPECT_EQ(gradient, std::vector<float>(10, 6.0F));
    EXPECT_EQ(residual.span()[0], 0.0F);
  });
}

// A deadline leaves receives posted in a dead communicator; what arrives there later must not reach
// the next exchange.
TEST(Flight, MemoryOfAFailedExchangeIsNotUsedAgainWhileItsMessagesMayArrive) {
  const comm::local::Group old_group(2);
  const auto old_zero = old_group.join(0);
  const auto old_one = old_group.join(1);
  const comm::local::Group ranks(2);
  compress::Residual residual(64);
  ResidualGroup group(residual.span());
  Terms terms{.plan = plan_of("gradients dense reduce=tree"), .deadline = Seconds{0.05}};
  std::vector<float> gradient(64, 1.0F);
  EXPECT_THROW((void)exchange(*old_zero, group, terms, compress::Gradient{gradient}, gradient),
               comm::CommError);
  std::vector<float> ones(64, 1.0F);
  std::jthread late([&] {
    Buffer<float> wrong(64);
    std::ranges::fill(wrong.span(), 777.0F);
    const auto ticket = old_one->send(0, 0, comm::region_of(wrong));
    const auto zero = ranks.join(1);
    compress::Residual other(64);
    ResidualGroup peer(other.span());
    std::vector<float> mine(64, 1.0F);
    (void)exchange(*zero, peer, {.plan = terms.plan, .deadline = Seconds{30}},
                   compress::Gradient{mine}, mine);
    (void)ticket;
  });
  const auto one = ranks.join(0);
  (void)exchange(*one, group, {.plan = terms.plan, .deadline = Seconds{30}},
                 compress::Gradient{ones}, ones);
  EXPECT_EQ(ones, std::vector<float>(64, 1.0F));
}

// A model may have more groups than a backend has tags.
TEST(Flight, GroupsBeyondTheLargestTagTravel) {
  testing::run_ranks("many groups", 2, [](comm::Communicator& c) {
    for (const std::uint32_t bucket : {comm::kLargestTag, comm::kLargestTag + 1, 70000U}) {
      compress::Residual residual(10);
      ResidualGroup group(residual.span());
      std::vector<float> gradient(10, static_cast<float>(c.rank()));
      const Terms terms{.plan = plan_of("gradients union density=100%"),
                        .bucket = bucket,
                        .deadline = Seconds{20}};
      (void)exchange(c, group, terms, compress::Gradient{gradient}, gradient);
      EXPECT_EQ(gradient, std::vector<float>(10, 0.5F)) << "group " << bucket;
    }
  });
}

// Energies beyond the largest float: everyone must still elect the same leader.
TEST(Shared, ElectsOneLeaderAlsoFromEnormousEnergies) {
  for (const float scale : {1e19F, 3e38F}) {
    testing::run_ranks("enormous", 3, [scale](comm::Communicator& c) {
      compress::Residual residual(200);
      ResidualGroup group(residual.span());
      for (std::uint64_t step = 0; step < 4; ++step) {
        std::vector<float> gradient(200, scale / 4);
        const Terms terms{.plan = plan_of("gradients shared/var density=1%"),
                          .round = step,
                          .deadline = Seconds{20}};
        (void)exchange(c, group, terms, compress::Gradient{gradient}, gradient);
        EXPECT_EQ(group.voted, 0) << "of equals the lowest";
      }
    });
  }
}

TEST(Shared, ForgetsAVoteOfALargerGroup) {
  compress::Residual residual(100);
  ResidualGroup group(residual.span());
  group.voted = 3;
  testing::run_ranks("smaller", 1, [&](comm::Communicator& c) {
    std::vector<float> gradient(100, 1.0F);
    EXPECT_EQ(exchange(c, group, {.plan = plan_of("gradients shared/var density=1%")},
                       compress::Gradient{gradient}, gradient)
                  .leader,
              0);
  });
}

TEST(Shared, FollowsTheLeaderThatThePlanNames) {
  const int size = 4;
  testing::run_ranks("leaders", size, [](comm::Communicator& c) {
    compress::Residual residual(1000);
    ResidualGroup group(residual.span());
    for (std::uint64_t step = 0; step < 8; ++step) {
      auto contribution = random_values(step * 8 + static_cast<std::uint64_t>(c.rank()), 1000);
      // Rank 2 has by far the most energy from step 4 on.
      for (float& value : contribution)
        value = std::clamp(value, -1.0F, 1.0F) * (c.rank() == 2 && step >= 4 ? 1e6F : 1.0F);
      std::vector<float> out(1000);
      const char* text =
          step < 3 ? "gradients shared/star density=1%" : "gradients shared/var density=1%";
      const Report report = exchange(c, group, {.plan = plan_of(text), .round = step},
                                     compress::Gradient{contribution}, out);
      if (step < 3) EXPECT_EQ(report.leader, static_cast<int>(step));
      if (step >= 5) EXPECT_EQ(report.leader, 2) << "step " << step;
    }
  });
}

// A follower takes its own values at the leader's indices, and only those.
TEST(Shared, SendsTheLeadersPlacesOnly) {
  testing::run_ranks("places", 3, [](comm::Communicator& c) {
    compress::Residual residual(10);
    ResidualGroup group(residual.span());
    std::vector<float> contribution(10, 0.5F);
    if (c.rank() == 0) contribution[3] = 8;
    if (c.rank() == 1) contribution[6] = 100;  // not the leader: stays
    std::vector<float> out(10);
    const Terms terms{.plan = plan_of("gradients shared/star density=10% values=f32"), .round = 0};
    const Report report = exchange(c, group, terms, compress::Gradient{contribution}, out);
    EXPECT_EQ(report.kept, 1U);
    EXPECT_FLOAT_EQ(out[3], 3.0F);
    EXPECT_EQ(out[6], 0.0F);
    EXPECT_EQ(residual.span()[3], 0.0F);
    EXPECT_EQ(residual.span()[6], contribution[6]);
  });
}

TEST(Union, UpdatesWhatAnyRankSent) {
  testing::run_ranks("union", 3, [](comm::Communicator& c) {
    compress::Residual residual(9);
    ResidualGroup group(residual.span());
    std::vector<float> contribution(9, 0.0F);
    contribution[static_cast<std::size_t>(3 * c.rank())] = 3;
    contribution[8] = 1;
    std::vector<float> out(9);
    const Terms terms{.plan = plan_of("gradients union density=11.2% values=f32")};
    const Report report = exchange(c, group, terms, compress::Gradient{contribution}, out);
    EXPECT_EQ(out, (std::vector<float>{1, 0, 0, 1, 0, 0, 1, 0, 0}));
    EXPECT_DOUBLE_EQ(report.updated_fraction, 3.0 / 9);
    EXPECT_DOUBLE_EQ(report.gain, 0.9);  // 9 of 10
    // Applied: 3 entries of 1. Not sent: 1 on each of 3 ranks, as if independent.
    EXPECT_NEAR(report.aggregate_gain, 3.0 / (3.0 + 3.0 / 9), 1e-6);
    EXPECT_EQ(residual.span()[8], 1.0F);
  });
}

// Two ranks' halves of one entry meet at its owner, who keeps the best and banks the rest.
TEST(Srs, TheOwnerKeepsTheBestSumAndBanksTheRest) {
  testing::run_ranks("srs", 2, [](comm::Communicator& c) {
    compress::Residual residual(4);
    ResidualGroup group(residual.span());
    // Slice 0 is entries 0 and 1, owned by rank 0; each rank sends its best one of them.
    const std::vector<float> contribution =
        c.rank() == 0 ? std::vector<float>{5, 0, 0, 0} : std::vector<float>{0, 4, 0, 2};
    std::vector<float> out(4);
    const Terms terms{.plan = plan_of("gradients srs scatter=direct density=50% values=f32")};
    (void)exchange(c, group, terms, compress::Gradient{contribution}, out);
    EXPECT_EQ(out, (std::vector<float>{2.5F, 0, 0, 1}));
    EXPECT_EQ(residual.span()[1],
              c.rank() == 0 ? 4.0F : 0.0F);  // the owner's now, whoever brought it
  });
}

TEST(Flight, MayTravelOnAnotherThreadAndLandLater) {
  for (const char* text :
       {"updates late=2 union density=20% values=int8", "updates late=2 srs density=20% values=f16",
        "updates late=2 dense values=f16"}) {
    testing::run_ranks(text, 3, [&](comm::Communicator& c) {
      const std::size_t n = 64;
      compress::Residual residual(n);
      ResidualGroup group(residual.span());
      std::vector<float> parameters = random_values(static_cast<std::uint64_t>(c.rank()), n);
      const std::vector<float> start = parameters;
      const std::vector<float> reference(n, 0.0F);
      const Terms terms{.plan = plan_of(text), .round = 5};
      const auto flight = depart(c, group, terms, compress::Progress{parameters, reference});
      // Between departure and landing the own part and the residual are all there is.
      std::vector<float> own(n, 0.0F);
      flight->add_own_part(own);
      for (std::size_t i = 0; i < n; ++i)
        EXPECT_FLOAT_EQ(own[i] + residual.span()[i], start[i]) << text;
      const auto before = std::vector<float>(residual.span().begin(), residual.span().end());
      std::jthread([&] { flight->travel(c); }).join();
      EXPECT_TRUE(same_bits(before, {residual.span().begin(), residual.span().end()}))
          << text << ": travel touched the residual";
      std::vector<float> out(n);
      EXPECT_FALSE(flight->land(out).is_void);
    });
  }
}

}  // namespace
}  // namespace pliant::exchange
