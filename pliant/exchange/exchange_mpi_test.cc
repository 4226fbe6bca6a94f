// SPDX-License-Identifier: MIT
// Run under mpirun: every scheme on a real backend. Rank 0 collects everybody's result and residual
// and checks them.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

#include "pliant/comm/mpi/session.h"
#include "pliant/compress/residual.h"
#include "pliant/exchange/flight.h"
#include "tests/support/random_values.h"
#include "tests/support/watchdog.h"

namespace pliant::exchange {
namespace {

std::optional<comm::mpi::Session> session;
constexpr std::size_t kEntries = 2000;

std::vector<float> contribution(int rank, std::uint64_t step) {
  std::mt19937_64 random(step * 100 + static_cast<std::uint64_t>(rank));
  std::normal_distribution<float> normal;
  std::vector<float> values(kEntries);
  for (float& value : values) value = normal(random);
  return values;
}

// Everybody's vector at rank 0, in rank order; elsewhere only one's own.
std::vector<std::vector<float>> collect(comm::Communicator& c, std::span<const float> mine) {
  const comm::Patience patient{.deadline = Seconds{60}, .place = {}};
  const Buffer<float> copy(mine.size());
  std::ranges::copy(mine, copy.span().begin());
  std::vector<std::vector<float>> all = {{mine.begin(), mine.end()}};
  if (c.rank() > 0) c.wait(c.send(0, 500, comm::region_of(copy)), patient);
  for (int r = 1; c.rank() == 0 && r < c.size(); ++r) {
    const Buffer<float> room(mine.size());
    c.wait(c.receive(r, 500, comm::region_of(room)), patient);
    all.emplace_back(room.span().begin(), room.span().end());
  }
  return all;
}

TEST(OverMpi, EverySchemeConservesAndAgrees) {
  const testing::Watchdog watchdog("exchange over MPI");
  const auto c = session->world();
  const compress::Residual residual(kEntries);
  ResidualGroup group(residual.span());
  std::vector<double> debt(kEntries, 0.0);  // rank 0: the sum of residuals before the step
  std::uint64_t step = 0;
  for (const char* text :
       {"gradients dense", "gradients union density=5% values=int8",
        "gradients dense reduce=ring values=f16", "gradients dense reduce=ring values=int4",
        "gradients shared/star bcast=double-tree reduce=halving-doubling density=5% values=f16",
        "gradients shared/var bcast=scatter-allgather reduce=tree density=5% values=int4",
        "gradients srs density=5% values=int8",
        "gradients srs scatter=direct gather=ring density=5% values=f32",
        "gradients union gather=ring density=1% values=f32 indices=block16",
        "gradients dense reduce=recursive-doubling"}) {
    SCOPED_TRACE(text);
    const Terms terms{.plan = plan::parse_plan(text), .round = step, .deadline = Seconds{60}};
    std::vector<float> gradient = contribution(c->rank(), step);
    const Report report = exchange(*c, group, terms, compress::Gradient{gradient}, gradient);
    EXPECT_FALSE(report.is_void);
    const auto results = collect(*c, gradient);
    const auto residuals = collect(*c, residual.span());
    std::vector<std::vector<float>> contributions;
    for (int r = 0; r < c->size(); ++r) contributions.push_back(contribution(r, step));
    for (std::size_t i = 0; c->rank() == 0 && i < kEntries; ++i) {
      double in = debt[i];
      const double out = static_cast<double>(c->size()) * results[0][i];
      debt[i] = 0;
      for (int r = 0; r < c->size(); ++r) {
        in += contributions[static_cast<std::size_t>(r)][i];
        debt[i] += residuals[static_cast<std::size_t>(r)][i];
      }
      ASSERT_NEAR(in, out + debt[i], c->size() * 1e-4) << i;
    }
    for (const auto& result : results) EXPECT_TRUE(testing::same_bits(result, results[0]));
    ++step;
  }
}

}  // namespace
}  // namespace pliant::exchange

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  pliant::exchange::session.emplace(&argc, &argv);
  const int result = RUN_ALL_TESTS();
  pliant::exchange::session.reset();
  return result;
}
