// SPDX-License-Identifier: MIT
// Random plans, step after step, on 1 to 9 ranks: nothing is lost, all ranks hold the same bits, and what is not finite or
// not expected does no harm.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <barrier>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/compress/residual.h"
#include "pliant/exchange/flight.h"
#include "pliant/exchange/packets.h"
#include "tests/arbitrary_plan.h"
#include "tests/support/every_scheme.h"
#include "tests/support/hidden_lengths.h"
#include "tests/support/run_ranks.h"

namespace pliant::exchange {
namespace {

using plan::Kind;
using plan::Plan;
using plan::Scheme;

constexpr int kLargestGroup = 9;
// Steps on 1 to 9 ranks, for each kind: 21,400 exchanges in all. Sanitizers make them ten and more times slower.
constexpr std::array<int, kLargestGroup> kSteps = {2500, 2500, 2000, 1500, 700, 500, 400, 300, 300};
#if defined(__SANITIZE_THREAD__)
constexpr int kFewer = 25;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kFewer = 10;
#else
constexpr int kFewer = 1;
#endif
constexpr int kShortRun = kFewer > 1 ? 15 : 60;

Plan random_plan(Kind kind, std::uint64_t seed) {
  const auto generate = rc::gen::arbitrary<Plan>();
  for (std::uint64_t attempt = 0;; ++attempt) {
    const Plan plan = generate(rc::Random(seed * 1000 + attempt), 100).value();
    if (plan.kind == kind) return plan;
  }
}

// Mostly normal numbers, of a scale that changes from step to step, with zeros, equals and a few large ones among them.
std::vector<float> random_values(std::uint64_t seed, std::size_t n) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const float scale = std::ldexp(1.0F, static_cast<int>(random() % 20) - 10);
  std::vector<float> values(n);
  for (float& value : values) {
    const auto kind = random() % 16;
    value = kind == 0 ? 0.0F : kind == 1 ? scale : kind == 2 ? normal(random) * scale * 100 : normal(random) * scale;
  }
  return values;
}

// What one rank had and has, for rank 0 to look at.
struct Account {
  std::vector<float> contribution;
  std::vector<float> old_residual;
  std::vector<float> new_residual;
  std::vector<float> result;
  Report report;
};

// One rank's run through the steps. Its contribution is a gradient, or progress from a reference.
class Worker {
 public:
  Worker(Kind kind, std::size_t n) : kind_(kind), residual_(n), bucket_(residual_.span()) {}

  Account step(comm::Communicator& c, const Terms& terms, std::vector<float> contribution) {
    const std::size_t n = residual_.size();
    Account account{.contribution = contribution, .old_residual = copy()};
    std::vector<float> out(n, 12345.0F);
    if (kind_ == Kind::kGradients && terms.step % 2 == 0) {
      account.report = exchange(c, bucket_, terms, compress::Gradient{contribution}, contribution);  // in place
      out = std::move(contribution);
    } else if (kind_ == Kind::kGradients) {
      account.report = exchange(c, bucket_, terms, compress::Gradient{contribution}, out);
    } else {
      // parameters - reference must be the contribution exactly: the reference is zero.
      const std::vector<float> reference(n, 0.0F);
      account.report = exchange(c, bucket_, terms, compress::Progress{contribution, reference}, out);
      EXPECT_EQ(contribution, reference) << "parameters have not returned to the reference";
    }
    account.result = std::move(out);
    account.new_residual = copy();
    return account;
  }

  [[nodiscard]] std::vector<float> copy() const { return {residual_.span().begin(), residual_.span().end()}; }

 private:
  Kind kind_;
  compress::Residual residual_;
  Bucket bucket_;
};

// N x result + new residuals = contributions + old residuals, entry by entry, summed in double.
//
// Tolerance. Every rounding is at most u = 2^-24 of the number it makes, and no number made on the way exceeds 2 M, where M
// is the sum over ranks of their largest |accumulated|: partial sums are at most M, and a code's value exceeds the original
// by at most half a step, 1/14 of the largest in its group (int4). Roundings per entry: each rank adds contribution and
// residual (1), and banks at most two hops' differences, each added up and given back (3); the sum takes at most N - 1
// additions; scaling takes 1/N, a product and an addition for each of at most N parts, times N at the end (3 N). Together
// less than 8 N, so the error is below 8 N x 2^-24 x 2 M = N M 2^-20. (And below it everything is a denormal.)
void expect_conserved(const std::vector<Account>& ranks, const std::string& what) {
  const std::size_t n = ranks.front().result.size();
  double m = 0;
  for (const Account& a : ranks) {
    double largest = 0;
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(static_cast<double>(a.contribution[i]) + a.old_residual[i]));
    m += largest;
  }
  const double tolerance = static_cast<double>(ranks.size()) * m * 0x1p-20 + 1e-40;
  for (std::size_t i = 0; i < n; ++i) {
    double in = 0;
    double out = static_cast<double>(ranks.size()) * ranks.front().result[i];
    for (const Account& a : ranks) {
      in += static_cast<double>(a.contribution[i]) + a.old_residual[i];
      out += a.new_residual[i];
    }
    ASSERT_NEAR(in, out, tolerance) << what << ", entry " << i << " of " << n;
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void expect_agreement(const std::vector<Account>& ranks, const std::string& what) {
  const Account& first = ranks.front();
  for (const Account& a : ranks) {
    EXPECT_TRUE(same_bits(a.result, first.result)) << what << ": ranks hold different results";
    EXPECT_EQ(a.report.is_void, first.report.is_void) << what;
    EXPECT_EQ(a.report.leader, first.report.leader) << what;
    EXPECT_EQ(a.report.updated_fraction, first.report.updated_fraction) << what;
    EXPECT_EQ(a.report.aggregate_gain, first.report.aggregate_gain) << what;
  }
}

void expect_report(const Account& a, const Plan& plan, const std::string& what) {
  const std::size_t n = a.result.size();
  EXPECT_GE(a.report.gain, 0) << what;
  EXPECT_LE(a.report.gain, 1 + 1e-6) << what;
  EXPECT_GE(a.report.aggregate_gain, 0) << what;
  EXPECT_LE(a.report.aggregate_gain, 1 + 1e-6) << what;
  if (plan.scheme == Scheme::kDense || n == 0) return;
  const auto updated = std::ranges::count_if(a.result, [](float value) { return value != 0; });
  EXPECT_DOUBLE_EQ(a.report.updated_fraction, static_cast<double>(updated) / static_cast<double>(n)) << what;
}

using Check = std::function<void(const std::vector<Account>&, const Terms&, const std::string&)>;

// Runs `steps` steps on `size` ranks, a random plan each, all of one kind, and shows rank 0 everybody's accounts.
// `spoil` may change a rank's contribution.
void run_steps(Kind kind, int size, int steps, std::uint64_t seed, const Check& check,
               const std::function<void(int, int, std::vector<float>&)>& spoil = {}) {
  std::vector<Plan> plans;  // made here: the generators are not for several threads
  for (int step = 0; step < steps; ++step) plans.push_back(random_plan(kind, seed * 100'000 + static_cast<std::uint64_t>(step)));
  std::vector<Account> accounts(static_cast<std::size_t>(size));
  std::barrier everyone(size);
  testing::run_ranks("random plans", size, [&](comm::Communicator& c) {
    std::mt19937_64 random(seed);  // the same on all ranks
    std::optional<Worker> worker;
    std::size_t n = 0;
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) {
      if (step % 12 == 0) {  // a new model now and then
        n = random() % 4 == 0 ? random() % 12 : random() % 300;
        worker.emplace(kind, n);
      }
      const Terms terms{.plan = plans[static_cast<std::size_t>(step)],
                        .step = static_cast<std::uint64_t>(step),
                        .epoch = static_cast<std::uint32_t>(step / 3),
                        .bucket = static_cast<std::uint32_t>(step % 5),
                        .deadline = Seconds{60}};
      auto contribution = random_values(seed * 77 + static_cast<std::uint64_t>(step * 16 + c.rank()), n);
      if (spoil) spoil(step, c.rank(), contribution);
      accounts[static_cast<std::size_t>(c.rank())] = worker->step(c, terms, contribution);
      everyone.arrive_and_wait();
      const std::string what =
          to_string(terms.plan) + ", step " + std::to_string(step) + ", N=" + std::to_string(size) + ", n=" + std::to_string(n);
      if (c.rank() == 0) check(accounts, terms, what);
      everyone.arrive_and_wait();
    }
  });
}

class RandomPlans : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RandomPlans, ::testing::Values(Kind::kGradients, Kind::kUpdates),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

TEST_P(RandomPlans, LoseNothingAndLeaveTheSameBitsEverywhere) {
  for (int size = 1; size <= kLargestGroup; ++size) {
    const int steps = kSteps.at(static_cast<std::size_t>(size - 1)) / kFewer;
    run_steps(GetParam(), size, steps, static_cast<std::uint64_t>(size),
              [](const auto& accounts, const Terms& terms, const std::string& what) {
                EXPECT_FALSE(accounts.front().report.is_void) << what;
                expect_agreement(accounts, what);
                expect_conserved(accounts, what);
                for (const Account& a : accounts) expect_report(a, terms.plan, what);
              });
    if (HasFailure()) return;
  }
}

TEST_P(RandomPlans, GiveTheSameBitsInASecondRun) {
  for (const int size : {1, 2, 3, 5, 8}) {
    std::vector<std::uint64_t> hashes;
    const auto note = [&hashes](const std::vector<Account>& accounts, const Terms&, const std::string&) {
      for (const Account& a : accounts) {
        hashes.push_back(hash(std::as_bytes(std::span(a.result))));
        hashes.push_back(hash(std::as_bytes(std::span(a.new_residual))));
      }
    };
    run_steps(GetParam(), size, kShortRun, 99, note);
    const auto first = std::exchange(hashes, {});
    run_steps(GetParam(), size, kShortRun, 99, note);
    EXPECT_EQ(first, hashes);
  }
}

// At random steps, places and ranks something is infinite or NaN, or overflows together with the residual.
TEST_P(RandomPlans, SurviveWhatIsNotFinite) {
  const auto spoil = [](int step, int rank, std::vector<float>& contribution) {
    std::mt19937_64 random(static_cast<std::uint64_t>(step * 31 + rank));
    if (contribution.empty() || random() % 4 != 0) return;
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr std::array bad = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()};
    contribution[random() % contribution.size()] = bad[random() % bad.size()];
    if (random() % 2 == 0) std::ranges::fill(std::span(contribution).subspan(1), 0.0F);  // next to nothing else on this rank
  };
  for (int size = 1; size <= kLargestGroup; ++size) {
    run_steps(
        GetParam(), size, 2 * kShortRun, static_cast<std::uint64_t>(size) + 50,
        [](const auto& accounts, const Terms& terms, const std::string& what) {
          expect_agreement(accounts, what);
          bool spoilt = false;
          for (const Account& a : accounts) {
            for (const float value : a.contribution) spoilt = spoilt || !std::isfinite(value);
            for (const float value : a.new_residual) EXPECT_TRUE(std::isfinite(value)) << what;
          }
          if (!spoilt) return expect_conserved(accounts, what);
          const bool gradients = terms.plan.kind == Kind::kGradients;
          const bool plain = terms.plan.scheme == Scheme::kDense && terms.plan.values == plan::ValueCode::kF32 && gradients;
          for (const Account& a : accounts) {
            if (plain) {  // as DDP would: NaN or infinite where it was, and the residual as it was
              EXPECT_FALSE(std::ranges::all_of(a.result, [](float value) { return std::isfinite(value); })) << what;
              EXPECT_TRUE(same_bits(a.new_residual, a.old_residual)) << what;
              continue;
            }
            EXPECT_TRUE(a.report.is_void) << what;
            for (std::size_t i = 0; i < a.result.size(); ++i) {
              EXPECT_TRUE(gradients ? std::isnan(a.result[i]) : a.result[i] == 0) << what;
              const float accumulated = a.contribution[i] + a.old_residual[i];
              const bool dense_gradients = terms.plan.scheme == Scheme::kDense && gradients;
              const float expected = dense_gradients || !std::isfinite(accumulated) ? a.old_residual[i] : accumulated;
              EXPECT_EQ(a.new_residual[i], expected) << what << ", entry " << i;
            }
          }
        },
        spoil);
    if (HasFailure()) return;
  }
}

Plan plan_of(const char* text) { return plan::parse_plan(text); }

constexpr std::array kSparsePlans = {
    "gradients union density=10% values=int8 indices=rice",
    "gradients union gather=ring density=10% values=f32 indices=raw32",
    "gradients shared/star bcast=scatter-allgather reduce=halving-doubling density=10% values=f16 indices=rice",
    "gradients shared/var bcast=double-tree reduce=ring density=10% values=int8 indices=block16",
    "gradients shared/star bcast=binomial reduce=tree density=10% values=int4 indices=rice",
    "gradients shared/star bcast=chain reduce=recursive-doubling density=10% values=f32 indices=rice",
    "gradients srs scatter=circulant density=10% values=int8 indices=rice",
    "gradients srs scatter=direct gather=recursive-doubling density=10% values=f16 indices=rice",
    "gradients dense reduce=halving-doubling values=f16",
};

// One rank is at another plan epoch, or bucket. Everyone refuses, nobody hangs although there is no deadline, and every
// residual has back what was taken out of it.
TEST(Mismatch, IsRefusedByEveryRankAndLosesNothing) {
  for (const char* text : kSparsePlans) {
    for (const int size : {2, 3, 4, 7}) {
      for (const bool other_epoch : {true, false}) {
        SCOPED_TRACE(::testing::Message() << text << " N=" << size);
        std::atomic<int> refusals = 0;
        std::atomic<int> named = 0;
        testing::run_ranks("mismatch", size, [&](comm::Communicator& c) {
          compress::Residual residual(100);
          Bucket bucket(residual.span());
          const auto contribution = random_values(static_cast<std::uint64_t>(c.rank()), 100);
          Terms terms{.plan = plan_of(text), .step = 7, .epoch = 40};
          if (c.rank() == 1 && other_epoch) terms.epoch = 41;
          if (c.rank() == 1 && !other_epoch) terms.step = 7 + static_cast<std::uint64_t>(size);  // the same leader
          std::vector<float> out(100);
          try {
            (void)exchange(c, bucket, terms, compress::Gradient{contribution}, out);
          } catch (const compress::PayloadMismatch& e) {
            ++refusals;
            const std::string said = e.what();
            const bool both = other_epoch ? said.find("40") != std::string::npos && said.find("41") != std::string::npos
                                          : said.find("step is") != std::string::npos;
            if (both) ++named;
          } catch (const RefusedByPeer&) {
            ++refusals;
          }
          const auto left = std::vector<float>(residual.span().begin(), residual.span().end());
          // Dense keeps nothing in the residual until it has landed.
          EXPECT_EQ(left, terms.plan.scheme == Scheme::kDense ? std::vector<float>(100, 0.0F) : contribution);
        });
        EXPECT_EQ(refusals, size);
        EXPECT_GE(named, 1);
      }
    }
  }
}

// One rank runs another density, so that its messages are longer or shorter than the others expect.
TEST(Mismatch, OfDensityIsRefusedWithoutAHang) {
  for (const char* text : {"gradients union gather=ring density=10% values=f32", "gradients union density=10% values=int8",
                           "gradients srs scatter=circulant density=10% values=f16", "gradients srs scatter=direct density=10% values=f32",
                           "gradients shared/star bcast=binomial reduce=ring density=10% values=f32",
                           "gradients shared/star bcast=scatter-allgather reduce=halving-doubling density=10% values=int8"}) {
    for (const double other : {0.02, 0.5}) {
      SCOPED_TRACE(::testing::Message() << text << " against " << other);
      std::atomic<int> refusals = 0;
      testing::run_ranks("density", 3, [&](comm::Communicator& c) {
        compress::Residual residual(400);
        Bucket bucket(residual.span());
        const auto contribution = random_values(static_cast<std::uint64_t>(c.rank()), 400);
        Terms terms{.plan = plan_of(text), .step = 1, .epoch = 40};
        if (c.rank() == 1) {
          terms.epoch = 41;
          terms.plan.density = other;
        }
        std::vector<float> out(400);
        try {
          (void)exchange(c, bucket, terms, compress::Gradient{contribution}, out);
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

// With a selector for the whole model a bucket may send fewer than its quota; a rank that refuses does not know how many.
TEST(Mismatch, IsRefusedAlsoWhereTheLeaderSendsLessThanItsQuota) {
  std::atomic<int> refusals = 0;
  testing::run_ranks("quota", 3, [&](comm::Communicator& c) {
    compress::Residual residual(1000);
    compress::Selector model(compress::Method::kExact, {1000});
    model.aim({{.keep = 10, .quota = 100}});
    Bucket bucket(residual.span(), &model);
    const auto contribution = random_values(static_cast<std::uint64_t>(c.rank()), 1000);
    const Terms terms{.plan = plan_of("gradients shared/star density=1% values=f32"), .epoch = c.rank() == 1 ? 41U : 40U, .quota = 100};
    std::vector<float> out(1000);
    EXPECT_ANY_THROW((void)exchange(c, bucket, terms, compress::Gradient{contribution}, out));
    ++refusals;
    EXPECT_EQ(std::vector<float>(residual.span().begin(), residual.span().end()), contribution);
  });
  EXPECT_EQ(refusals, 3);
}

// An engine that does not say how long a message was hands over the whole room, with rubbish behind the message.
TEST(Lengths, NeedNotBeTold) {
  for (const int size : {1, 2, 3, 4, 7}) {
    testing::run_ranks("hidden lengths", size, [](comm::Communicator& c) {
      const auto told = testing::every_scheme(c);
      testing::HiddenLengths hidden(c);
      EXPECT_TRUE(same_bits(testing::every_scheme(hidden), told)) << "rank " << c.rank() << " of " << c.size();
    });
  }
}

// Nothing arrives where the last exchange's payload still lies: that one must not be taken for the new one.
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
    Bucket bucket(residual.span());
    std::vector<float> contribution(100, 1.0F);
    std::vector<float> small(99);
    for (const char* text : {"gradients dense", "gradients union density=10%", "gradients srs density=10%"}) {
      const Terms terms{.plan = plan_of(text)};
      EXPECT_THROW((void)exchange(c, bucket, terms, compress::Gradient{contribution}, small), ContractError);
      EXPECT_THROW((void)exchange(c, bucket, terms, compress::Gradient{small}, contribution), ContractError);
    }
    const Terms updates{.plan = plan_of("updates union density=10%")};
    EXPECT_THROW((void)exchange(c, bucket, updates, compress::Gradient{contribution}, contribution), ContractError);
    EXPECT_EQ(std::vector<float>(residual.span().begin(), residual.span().end()), std::vector<float>(100, 0.0F));
  });
}

TEST(Dense, FlushesAResidualThatWasThereFromTheStart) {
  testing::run_ranks("resumed", 2, [](comm::Communicator& c) {
    compress::Residual residual(10);
    std::ranges::fill(residual.span(), 5.0F);
    Bucket bucket(residual.span());
    std::vector<float> gradient(10, 1.0F);
    (void)exchange(c, bucket, {.plan = plan_of("gradients dense")}, compress::Gradient{gradient}, gradient);
    EXPECT_EQ(gradient, std::vector<float>(10, 6.0F));
    EXPECT_EQ(residual.span()[0], 0.0F);
  });
}

// A deadline leaves receives posted in a dead communicator; what arrives there later must not reach the next exchange.
TEST(Flight, MemoryOfAFailedExchangeIsNotUsedAgainWhileItsMessagesMayArrive) {
  const comm::local::Group old_group(2);
  const auto old_zero = old_group.join(0);
  const auto old_one = old_group.join(1);
  const comm::local::Group group(2);
  compress::Residual residual(64);
  Bucket bucket(residual.span());
  Terms terms{.plan = plan_of("gradients dense reduce=tree"), .deadline = Seconds{0.05}};
  std::vector<float> gradient(64, 1.0F);
  EXPECT_THROW((void)exchange(*old_zero, bucket, terms, compress::Gradient{gradient}, gradient), comm::CommError);
  std::vector<float> ones(64, 1.0F);
  std::jthread late([&] {
    Buffer<float> wrong(64);
    std::ranges::fill(wrong.span(), 777.0F);
    const auto ticket = old_one->send(0, 0, comm::region_of(wrong));
    const auto zero = group.join(1);
    compress::Residual other(64);
    Bucket peer(other.span());
    std::vector<float> mine(64, 1.0F);
    (void)exchange(*zero, peer, {.plan = terms.plan, .deadline = Seconds{30}}, compress::Gradient{mine}, mine);
    (void)ticket;
  });
  const auto one = group.join(0);
  (void)exchange(*one, bucket, {.plan = terms.plan, .deadline = Seconds{30}}, compress::Gradient{ones}, ones);
  EXPECT_EQ(ones, std::vector<float>(64, 1.0F));
}

// Energies beyond the largest float: everyone must still elect the same leader.
TEST(Shared, ElectsOneLeaderAlsoFromEnormousEnergies) {
  for (const float scale : {1e19F, 3e38F}) {
    testing::run_ranks("enormous", 3, [scale](comm::Communicator& c) {
      compress::Residual residual(200);
      Bucket bucket(residual.span());
      for (std::uint64_t step = 0; step < 4; ++step) {
        std::vector<float> gradient(200, scale / 4);
        const Terms terms{.plan = plan_of("gradients shared/var density=1%"), .step = step, .deadline = Seconds{20}};
        (void)exchange(c, bucket, terms, compress::Gradient{gradient}, gradient);
        EXPECT_EQ(bucket.voted, 0) << "of equals the lowest";
      }
    });
  }
}

TEST(Shared, ForgetsAVoteOfALargerGroup) {
  compress::Residual residual(100);
  Bucket bucket(residual.span());
  bucket.voted = 3;
  testing::run_ranks("smaller", 1, [&](comm::Communicator& c) {
    std::vector<float> gradient(100, 1.0F);
    EXPECT_EQ(exchange(c, bucket, {.plan = plan_of("gradients shared/var density=1%")}, compress::Gradient{gradient}, gradient).leader, 0);
  });
}

TEST(Shared, FollowsTheLeaderThatThePlanNames) {
  const int size = 4;
  testing::run_ranks("leaders", size, [](comm::Communicator& c) {
    compress::Residual residual(1000);
    Bucket bucket(residual.span());
    for (std::uint64_t step = 0; step < 8; ++step) {
      auto contribution = random_values(step * 8 + static_cast<std::uint64_t>(c.rank()), 1000);
      // Rank 2 has by far the most energy from step 4 on.
      for (float& value : contribution) value = std::clamp(value, -1.0F, 1.0F) * (c.rank() == 2 && step >= 4 ? 1e6F : 1.0F);
      std::vector<float> out(1000);
      const char* text = step < 3 ? "gradients shared/star density=1%" : "gradients shared/var density=1%";
      const Report report = exchange(c, bucket, {.plan = plan_of(text), .step = step}, compress::Gradient{contribution}, out);
      if (step < 3) EXPECT_EQ(report.leader, static_cast<int>(step));
      if (step >= 5) EXPECT_EQ(report.leader, 2) << "step " << step;
    }
  });
}

// A follower takes its own values at the leader's indices, and only those.
TEST(Shared, SendsTheLeadersPlacesOnly) {
  testing::run_ranks("places", 3, [](comm::Communicator& c) {
    compress::Residual residual(10);
    Bucket bucket(residual.span());
    std::vector<float> contribution(10, 0.5F);
    if (c.rank() == 0) contribution[3] = 8;
    if (c.rank() == 1) contribution[6] = 100;  // not the leader: stays
    std::vector<float> out(10);
    const Terms terms{.plan = plan_of("gradients shared/star density=10% values=f32"), .step = 0};
    const Report report = exchange(c, bucket, terms, compress::Gradient{contribution}, out);
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
    Bucket bucket(residual.span());
    std::vector<float> contribution(9, 0.0F);
    contribution[static_cast<std::size_t>(3 * c.rank())] = 3;
    contribution[8] = 1;
    std::vector<float> out(9);
    const Terms terms{.plan = plan_of("gradients union density=11.2% values=f32")};
    const Report report = exchange(c, bucket, terms, compress::Gradient{contribution}, out);
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
    Bucket bucket(residual.span());
    // Slice 0 is entries 0 and 1, owned by rank 0; each rank sends its best one of them.
    const std::vector<float> contribution = c.rank() == 0 ? std::vector<float>{5, 0, 0, 0} : std::vector<float>{0, 4, 0, 2};
    std::vector<float> out(4);
    const Terms terms{.plan = plan_of("gradients srs scatter=direct density=50% values=f32")};
    (void)exchange(c, bucket, terms, compress::Gradient{contribution}, out);
    EXPECT_EQ(out, (std::vector<float>{2.5F, 0, 0, 1}));
    EXPECT_EQ(residual.span()[1], c.rank() == 0 ? 4.0F : 0.0F);  // the owner's now, whoever brought it
  });
}

TEST(Flight, MayTravelOnAnotherThreadAndLandLater) {
  for (const char* text :
       {"updates late=2 union density=20% values=int8", "updates late=2 srs density=20% values=f16", "updates late=2 dense values=f16"}) {
    testing::run_ranks(text, 3, [&](comm::Communicator& c) {
      const std::size_t n = 64;
      compress::Residual residual(n);
      Bucket bucket(residual.span());
      std::vector<float> parameters = random_values(static_cast<std::uint64_t>(c.rank()), n);
      const std::vector<float> start = parameters;
      const std::vector<float> reference(n, 0.0F);
      const Terms terms{.plan = plan_of(text), .step = 5};
      const auto flight = depart(c, bucket, terms, compress::Progress{parameters, reference});
      // Between departure and landing the own part and the residual are all there is.
      std::vector<float> own(n, 0.0F);
      flight->add_own_part(own);
      for (std::size_t i = 0; i < n; ++i) EXPECT_FLOAT_EQ(own[i] + residual.span()[i], start[i]) << text;
      const auto before = std::vector<float>(residual.span().begin(), residual.span().end());
      std::jthread([&] { flight->travel(c); }).join();
      EXPECT_TRUE(same_bits(before, {residual.span().begin(), residual.span().end()})) << text << ": travel touched the residual";
      std::vector<float> out(n);
      EXPECT_FALSE(flight->land(out).is_void);
    });
  }
}

}  // namespace
}  // namespace pliant::exchange
