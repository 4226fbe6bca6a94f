// SPDX-License-Identifier: MIT
// Random plans, step after step, on 1 to 9 ranks: nothing is lost, all ranks hold the same bits,
// and what is not finite or not expected does no harm.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <random>

#include "pliant/common/hash.h"
#include "pliant/compress/residual.h"
#include "pliant/exchange/flight.h"
#include "tests/arbitrary_plan.h"
#include "tests/support/random_values.h"
#include "tests/support/run_ranks.h"

namespace pliant::exchange {
namespace {

using plan::Kind;
using plan::Plan;
using plan::Scheme;
using testing::random_values;
using testing::same_bits;

constexpr int kLargestGroup = 9;
// Steps on 1 to 9 ranks, for each kind: 21,400 exchanges in all. What a step costs grows with the
// square of the ranks, which are threads here, so that large groups get fewer. Sanitizers make them
// ten and more times slower.
constexpr std::array<int, kLargestGroup> kSteps = {3000, 3500, 2000, 1000, 400, 300, 200, 150, 150};
#if defined(__SANITIZE_THREAD__)
constexpr int kFewer = 25;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kFewer = 10;
#else
constexpr int kFewer = 1;
#endif
constexpr int kStepsOfAModel = 12;
constexpr int kShortRun = kFewer > 1 ? 15 : 60;

Plan random_plan(Kind kind, std::uint64_t seed) {
  const auto generate = rc::gen::arbitrary<Plan>();
  for (std::uint64_t attempt = 0;; ++attempt) {
    const Plan plan = generate(rc::Random(seed * 1000 + attempt), 100).value();
    if (plan.kind == kind) return plan;
  }
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
  Worker(Kind kind, std::size_t n) : kind_(kind), residual_(n), group_(residual_.span()) {}

  Account step(comm::Communicator& c, const Terms& terms, std::vector<float> contribution) {
    const std::size_t n = residual_.size();
    Account account{.contribution = contribution, .old_residual = copy()};
    std::vector<float> out(n, 12345.0F);
    if (kind_ == Kind::kGradients && terms.round % 2 == 0) {
      account.report =
          exchange(c, group_, terms, compress::Gradient{contribution}, contribution);  // in place
      out = std::move(contribution);
    } else if (kind_ == Kind::kGradients) {
      account.report = exchange(c, group_, terms, compress::Gradient{contribution}, out);
    } else {
      // parameters - reference must be the contribution exactly: the reference is zero.
      const std::vector<float> reference(n, 0.0F);
      account.report = exchange(c, group_, terms, compress::Progress{contribution, reference}, out);
      EXPECT_EQ(contribution, reference) << "parameters have not returned to the reference";
    }
    account.result = std::move(out);
    account.new_residual = copy();
    return account;
  }

  [[nodiscard]] std::vector<float> copy() const {
    return {residual_.span().begin(), residual_.span().end()};
  }

 private:
  Kind kind_;
  compress::Residual residual_;
  ResidualGroup group_;
};

// N x result + new residuals = contributions + old residuals, entry by entry, summed in double.
//
// Tolerance. Every rounding is at most u = 2^-24 of the number it makes, and no number made on the
// way exceeds 2 M, where M is the sum over ranks of their largest |accumulated|: partial sums are
// at most M, and a code's value exceeds the original by at most half a step, 1/14 of the largest in
// its group (int4), or is at most the largest in its group (int2). Roundings per entry: each rank
// adds contribution and residual (1), and banks at most two hops' differences, each added up and
// given back (3); the sum takes at most N - 1 additions; scaling takes 1/N, a product and an
// addition for each of at most N parts, times N at the end (3 N). Together less than 8 N, so the
// error is below 8 N x 2^-24 x 2 M = N M 2^-20. (And below it everything is a denormal.)
void expect_conserved(const std::vector<Account>& ranks, const std::string& what) {
  const std::size_t n = ranks.front().result.size();
  double m = 0;
  for (const Account& a : ranks) {
    double largest = 0;
    for (std::size_t i = 0; i < n; ++i)
      largest =
          std::max(largest, std::abs(static_cast<double>(a.contribution[i]) + a.old_residual[i]));
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
  EXPECT_DOUBLE_EQ(a.report.updated_fraction, static_cast<double>(updated) / static_cast<double>(n))
      << what;
}

using Check = std::function<void(const std::vector<Account>&, const Terms&, const std::string&)>;

// Runs `steps` steps on `size` ranks, a random plan each, all of one kind, and shows rank 0
// everybody's accounts. `spoil` may change a rank's contribution.
void run_steps(Kind kind, int size, int steps, std::uint64_t seed, const Check& check,
               const std::function<void(int, int, std::vector<float>&)>& spoil = {}) {
  std::vector<Plan> plans;  // made here: the generators are not for several threads
  for (int step = 0; step < steps; ++step)
    plans.push_back(random_plan(kind, seed * 100'000 + static_cast<std::uint64_t>(step)));
  // Rank 0 looks at everything that was done with one model, then all go on to the next: meeting
  // after every step would take longer than the exchanges.
  std::vector<std::vector<Account>> accounts(kStepsOfAModel,
                                             std::vector<Account>(static_cast<std::size_t>(size)));
  std::barrier everyone(size);
  const auto terms_of = [&plans](int step) {
    return Terms{.plan = plans[static_cast<std::size_t>(step)],
                 .round = static_cast<std::uint64_t>(step),
                 .plan_version = static_cast<std::uint32_t>(step / 3),
                 .bucket = static_cast<std::uint32_t>(step % 5),
                 .deadline = Seconds{60}};
  };
  testing::run_ranks("random plans", size, [&](comm::Communicator& c) {
    std::mt19937_64 random(seed);  // the same on all ranks
    for (int first = 0; first < steps && !::testing::Test::HasFatalFailure();
         first += kStepsOfAModel) {
      const std::size_t n = random() % 4 == 0 ? random() % 12 : random() % 300;
      Worker worker(kind, n);
      const int last = std::min(first + kStepsOfAModel, steps);
      for (int step = first; step < last; ++step) {
        const Terms terms = terms_of(step);
        auto contribution =
            random_values(seed * 77 + static_cast<std::uint64_t>(step * 16 + c.rank()), n);
        if (spoil) spoil(step, c.rank(), contribution);
        accounts[static_cast<std::size_t>(step - first)][static_cast<std::size_t>(c.rank())] =
            worker.step(c, terms, contribution);
      }
      everyone.arrive_and_wait();
      for (int step = first; c.rank() == 0 && step < last; ++step) {
        const Terms terms = terms_of(step);
        check(accounts[static_cast<std::size_t>(step - first)], terms,
              to_string(terms.plan) + ", step " + std::to_string(step) +
                  ", N=" + std::to_string(size) + ", n=" + std::to_string(n));
      }
      everyone.arrive_and_wait();
    }
  });
}

class RandomPlans : public ::testing::TestWithParam<Kind> {};
class RandomPlansSlow : public RandomPlans {};
const auto kKinds = ::testing::Values(Kind::kGradients, Kind::kUpdates);
const auto kKindName = [](const auto& kind) { return std::string(to_string(kind.param)); };
INSTANTIATE_TEST_SUITE_P(Kinds, RandomPlans, kKinds, kKindName);
INSTANTIATE_TEST_SUITE_P(Kinds, RandomPlansSlow, kKinds, kKindName);

void expect_nothing_is_lost_and_bits_are_the_same(Kind kind, int fewer) {
  for (int size = 1; size <= kLargestGroup; ++size) {
    const int steps = std::max(1, kSteps.at(static_cast<std::size_t>(size - 1)) / fewer);
    run_steps(kind, size, steps, static_cast<std::uint64_t>(size),
              [](const auto& accounts, const Terms& terms, const std::string& what) {
                EXPECT_FALSE(accounts.front().report.is_void) << what;
                expect_agreement(accounts, what);
                expect_conserved(accounts, what);
                for (const Account& a : accounts) expect_report(a, terms.plan, what);
              });
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_P(RandomPlans, LoseNothingAndLeaveTheSameBitsEverywhere) {
  expect_nothing_is_lost_and_bits_are_the_same(GetParam(), 40 * kFewer);
}

TEST_P(RandomPlansSlow, LoseNothingAndLeaveTheSameBitsEverywhere) {
  expect_nothing_is_lost_and_bits_are_the_same(GetParam(), kFewer);
}

TEST_P(RandomPlansSlow, GiveTheSameBitsInASecondRun) {
  for (const int size : {1, 2, 3, 5, 8}) {
    std::vector<std::uint64_t> hashes;
    const auto note = [&hashes](const std::vector<Account>& accounts, const Terms&,
                                const std::string&) {
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

// At random steps, places and ranks something is infinite or NaN, or overflows together with the
// residual.
TEST_P(RandomPlansSlow, SurviveWhatIsNotFinite) {
  const auto spoil = [](int step, int rank, std::vector<float>& contribution) {
    std::mt19937_64 random(static_cast<std::uint64_t>(step * 31 + rank));
    if (contribution.empty() || random() % 4 != 0) return;
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr std::array bad = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()};
    contribution[random() % contribution.size()] = bad[random() % bad.size()];
    if (random() % 2 == 0)
      std::ranges::fill(std::span(contribution).subspan(1),
                        0.0F);  // next to nothing else on this rank
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
          const bool plain = terms.plan.scheme == Scheme::kDense &&
                             terms.plan.values == plan::ValueCode::kF32 && gradients;
          for (const Account& a : accounts) {
            if (plain) {  // as DDP would: NaN or infinite where it was, and the residual as it was
              EXPECT_FALSE(std::ranges::all_of(a.result, [](float value) {
                return std::isfinite(value);
              })) << what;
              EXPECT_TRUE(same_bits(a.new_residual, a.old_residual)) << what;
              continue;
            }
            EXPECT_TRUE(a.report.is_void) << what;
            for (std::size_t i = 0; i < a.result.size(); ++i) {
              EXPECT_TRUE(gradients ? std::isnan(a.result[i]) : a.result[i] == 0) << what;
              const float accumulated = a.contribution[i] + a.old_residual[i];
              const bool dense_gradients = terms.plan.scheme == Scheme::kDense && gradients;
              const float expected =
                  dense_gradients || !std::isfinite(accumulated) ? a.old_residual[i] : accumulated;
              EXPECT_EQ(a.new_residual[i], expected) << what << ", entry " << i;
            }
          }
        },
        spoil);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace pliant::exchange
