// SPDX-License-Identifier: MIT
// What does not fit is refused, by everybody, and nothing is lost by it: other plans, lengths that
// are not told, misuse.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "pliant/common/errors.h"
#include "pliant/compress/residual.h"
#include "pliant/exchange/flight.h"
#include "pliant/exchange/packets.h"
#include "tests/support/every_scheme.h"
#include "tests/support/hidden_lengths.h"
#include "tests/support/random_values.h"
#include "tests/support/run_ranks.h"

namespace pliant::exchange {
namespace {

using plan::Scheme;
using testing::random_values;
using testing::same_bits;

plan::Plan plan_of(const char* text) { return plan::parse_plan(text); }

constexpr std::array kSparsePlans = {
    "gradients union density=10% values=int8 indices=rice",
    "gradients union gather=ring density=10% values=f32 indices=raw32",
    "gradients shared/star bcast=scatter-allgather reduce=halving-doubling density=10% values=f16 "
    "indices=rice",
    "gradients shared/var bcast=double-tree reduce=ring density=10% values=int8 indices=block16",
    "gradients shared/star bcast=binomial reduce=tree density=10% values=int4 indices=rice",
    "gradients shared/star bcast=chain reduce=recursive-doubling density=10% values=f32 "
    "indices=rice",
    "gradients srs scatter=circulant density=10% values=int8 indices=rice",
    "gradients srs scatter=direct gather=recursive-doubling density=10% values=f16 indices=rice",
    "gradients dense reduce=halving-doubling values=f16",
    "gradients dense reduce=halving-doubling values=int8",
};

// One rank is at another plan version, or bucket. Everyone refuses, nobody hangs although there is
// no deadline, and every residual has back what was taken out of it.
TEST(Mismatch, IsRefusedByEveryRankAndLosesNothing) {
  for (const char* text : kSparsePlans) {
    for (const int size : {2, 3, 4, 7}) {
      for (const bool other_version : {true, false}) {
        SCOPED_TRACE(::testing::Message() << text << " N=" << size);
        std::atomic<int> refusals = 0;
        std::atomic<int> named = 0;
        testing::run_ranks("mismatch", size, [&](comm::Communicator& c) {
          compress::Residual residual(100);
          ResidualGroup group(residual.span());
          const auto contribution = random_values(static_cast<std::uint64_t>(c.rank()), 100);
          Terms terms{.plan = plan_of(text), .round = 7, .plan_version = 40};
          if (c.rank() == 1 && other_version) terms.plan_version = 41;
          if (c.rank() == 1 && !other_version)
            terms.round = 7 + static_cast<std::uint64_t>(size);  // the same leader
          std::vector<float> out(100);
          try {
            (void)exchange(c, group, terms, compress::Gradient{contribution}, out);
          } catch (const compress::PayloadMismatch& e) {
            ++refusals;
            const std::string said = e.what();
            const bool both = other_version ? said.find("40") != std::string::npos &&
                                                  said.find("41") != std::string::npos
                                            : said.find("round is") != std::string::npos;
            if (both) ++named;
          } catch (const RefusedByPeer&) {
            ++refusals;
          }
          const auto left = std::vector<float>(residual.span().begin(), residual.span().end());
          // Dense keeps nothing in the residual until it has landed.
          EXPECT_EQ(left, terms.plan.scheme == Scheme::kDense ? std::vector<float>(100, 0.0F)
                                                              : contribution);
        });
        EXPECT_EQ(refusals, size);
        EXPECT_GE(named, 1);
      }
    }
  }
}

// One rank runs another density, so that its messages are longer or shorter than the others expect.
TEST(Mismatch, OfDensityIsRefusedWithoutAHang) {
  for (const char* text :
       {"gradients union gather=ring density=10% values=f32",
        "gradients union density=10% values=int8",
        "gradients srs scatter=circulant density=10% values=f16",
        "gradients srs scatter=direct density=10% values=f32",
        "gradients shared/star bcast=binomial reduce=ring density=10% values=f32",
        "gradients shared/star bcast=scatter-allgather density=10% values=int8"}) {
    for (const double other : {0.02, 0.5}) {
      SCOPED_TRACE(::testing::Message() << text << " against " << other);
      std::atomic<int> refusals = 0;
      testing::run_ranks("density", 3, [&](comm::Communicator& c) {
        compress::Residual residual(400);
        ResidualGroup group(residual.span());
        const auto contribution = random_values(static_cast<std::uint64_t>(c.rank()), 400);
        Terms terms{.plan = plan_of(text), .round = 1, .plan_version = 40};
        if (c.rank() == 1) {
          terms.plan_version = 41;
          terms.plan.density = other;
        }
        std::vector<float> out(400);
        try {
          (void)exchange(c, group, terms, compress::Gradient{contribution}, out);
        } catch (const compress::PayloadError&) {
          ++refusals;
        } catch (const RefusedByPeer&) {
          ++refusals;
        }
        EXPECT_EQ(std::vector<float>(residual.span().begin(), residual.span().end()), contribution);
      });
      EXPECT_EQ(refusals, 3);
    }
  }
}

// A backend that does not say how long a message was hands over the whole room, with rubbish behind
// the message.
TEST(Lengths, NeedNotBeTold) {
  for (const int size : {1, 2, 3, 4, 7}) {
    testing::run_ranks("hidden lengths", size, [](comm::Communicator& c) {
      const auto told = testing::every_scheme(c);
      testing::HiddenLengths hidden(c);
      EXPECT_TRUE(same_bits(testing::every_scheme(hidden), told))
          << "rank " << c.rank() << " of " << c.size();
    });
  }
}

// Nothing arrives where the last exchange's payload still lies: that one must not be taken for the
// new one.
TEST(Lengths, AnEmptyMessageIsNotCompletedByAnOlderOne) {
  Workspace workspace;
  const comm::Region old = workspace.take(4096);
  std::ranges::fill(old.bytes, std::byte{0xA5});
  workspace.reset();
  const comm::Region room = room_for(4096, workspace);
  EXPECT_EQ(room.bytes[0], std::byte{0});
  EXPECT_THROW((void)unpack(room, 1), compress::CorruptPayload);
}

TEST(Misuse, IsNoticedBeforeAnythingIsTakenOut) {
  testing::run_ranks("misuse", 1, [](comm::Communicator& c) {
    compress::Residual residual(100);
    ResidualGroup group(residual.span());
    std::vector<float> contribution(100, 1.0F);
    std::vector<float> small(99);
    for (const char* text :
         {"gradients dense", "gradients union density=10%", "gradients srs density=10%"}) {
      const Terms terms{.plan = plan_of(text)};
      EXPECT_THROW((void)exchange(c, group, terms, compress::Gradient{contribution}, small),
                   ContractError);
      EXPECT_THROW((void)exchange(c, group, terms, compress::Gradient{small}, contribution),
                   ContractError);
    }
    const Terms updates{.plan = plan_of("updates union density=10%")};
    EXPECT_THROW((void)exchange(c, group, updates, compress::Gradient{contribution}, contribution),
                 ContractError);
    EXPECT_EQ(std::vector<float>(residual.span().begin(), residual.span().end()),
              std::vector<float>(100, 0.0F));
  });
}

}  // namespace
}  // namespace pliant::exchange
