// SPDX-License-Identifier: MIT
// The parts of pliant-bench that a run without faults does not show.
#include <gtest/gtest.h>

#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/model/exchange.h"
#include "tests/support/matches.h"
#include "tests/support/run_ranks.h"
#include "tools/pliant-bench/agree.h"
#include "tools/pliant-bench/choose.h"
#include "tools/pliant-bench/hollow.h"
#include "tools/pliant-bench/measure.h"
#include "tools/pliant-bench/options.h"
#include "tools/pliant-bench/predict.h"
#include "tools/pliant-bench/problem.h"
#include "tools/pliant-bench/report.h"
#include "tools/pliant-bench/trial.h"

namespace pliant::bench {
namespace {

using schedule::Collective;

constexpr int kRanks = 3;
constexpr std::array kAll = {Collective::kAllReduce, Collective::kReduceScatter,
                             Collective::kAllGather, Collective::kBroadcast};

// What every rank must end with, by the plainest means.
std::vector<float> solved(const Problem& problem) {
  std::vector<float> result(problem.count, 0);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    std::vector<float> brought(problem.count);
    fill(problem, rank, brought);
    const bool sums = problem.collective == Collective::kAllReduce ||
                      problem.collective == Collective::kReduceScatter;
    const auto part = own_part(problem, rank, brought);
    const auto begin = static_cast<std::size_t>(part.data() - brought.data());
    for (std::size_t i = 0; i < problem.count; ++i) {
      if (sums) result[i] += brought[i];
      if (problem.collective == Collective::kBroadcast && rank == problem.root)
        result[i] = brought[i];
      if (problem.collective == Collective::kAllGather && i >= begin && i < begin + part.size())
        result[i] = brought[i];
    }
  }
  return result;
}

TEST(Checker, AcceptsTheSolutionAndCountsEveryWrongElement) {
  for (const Collective collective : kAll) {
    const Problem problem = make_problem(collective, kRanks, 1, 300);
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<float> data = solved(problem);
      EXPECT_EQ(count_wrong(problem, rank, data), 0) << to_string(collective);
      const auto mine = own_part(problem, rank, data);
      mine[0] += 1;
      mine[7] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(count_wrong(problem, rank, data), 2) << to_string(collective);
    }
  }
}

TEST(Checker, SeesThatNothingWasDone) {
  for (const Collective collective : kAll) {
    const Problem problem = make_problem(collective, kRanks, 1, 300);
    std::vector<float> data(problem.count);
    fill(problem, 2, data);
    EXPECT_GT(count_wrong(problem, 2, data), 0) << to_string(collective);
  }
}

TEST(Checker, WrongValuesMakeAReportWrong) {
  Report report{2, "threads", "", {}, {{Collective::kAllReduce, "ring", {}}}};
  const Problem problem = make_problem(Collective::kAllReduce, 2, 0, 64);
  report.blocks[0].rows.push_back({problem, 0, {{1e-3}, {1e-3}, {1e-3}, 0}});
  EXPECT_FALSE(report.wrong());
  EXPECT_NE(as_table(report).find("every value is right"), std::string::npos);
  report.blocks[0].rows[0].timing.wrong = 3;
  EXPECT_TRUE(report.wrong());
  EXPECT_NE(as_table(report).find("WRONG VALUES"), std::string::npos);
}

TEST(MaxOverRanks, IsTheSameEverywhereForEverySize) {
  for (int size = 1; size <= 9; ++size) {
    testing::run_ranks("max over ranks", size, [size](comm::Communicator& communicator) {
      for (int largest = 0; largest < size; ++largest) {
        const double mine = communicator.rank() == largest ? 7 : -communicator.rank();
        EXPECT_EQ(max_over_ranks(communicator, mine, Seconds{10}), 7);
      }
    });
  }
}

TEST(Measure, RunsEveryContenderInTurnAndReportsTheWorstCheck) {
  testing::run_ranks("measure", 2, [](comm::Communicator& communicator) {
    std::string order;
    std::vector<Contender> contenders(2);
    contenders[0].run = [&order] { order += 'a'; };
    contenders[1].run = [&order] { order += 'b'; };
    contenders[1].check = [&communicator] { return communicator.rank() == 1 ? 5 : 0; };
    Options options;
    options.iterations = 2;
    options.warmups = 1;
    const auto timings = measure(communicator, contenders, options);
    EXPECT_EQ(order, "ababab");
    EXPECT_FALSE(timings[0].wrong.has_value());
    EXPECT_EQ(timings[1].wrong, 5);
  });
}

TEST(Summary, IsTheMedianWithinItsSpread) {
  const Timing timing = summary({5, 1, 3, 2, 4, 100, 6, 7, 8, 9});
  EXPECT_EQ(timing.median.value, 5.5);
  EXPECT_EQ(timing.low.value, 2);
  EXPECT_EQ(timing.high.value, 9);
  EXPECT_THROW((void)summary({}), ContractError);
}

TEST(Segments, BestByPriceBeatsItsNeighbours) {
  const plan::Link link = plan::parse_link("10gbit,50us");
  const auto& chain = schedule::find_builder(Collective::kBroadcast, "chain");
  const Problem problem = make_problem(Collective::kBroadcast, 8, 0, 8 << 20);
  const int best = best_segments(chain, problem, link);
  EXPECT_NEAR(best, 28, 8);  // sqrt((N-2) M b / a)
  EXPECT_LE(predict(chain, problem, best, link), predict(chain, problem, 2 * best, link));
  EXPECT_LE(predict(chain, problem, best, link), predict(chain, problem, best / 2, link));
}

TEST(Sizes, AreBinaryAsInNcclTests) {
  EXPECT_EQ(parse_bytes("8", "-b"), 8U);
  EXPECT_EQ(parse_bytes("8K", "-b"), 8U << 10);
  EXPECT_EQ(parse_bytes("1.5m", "-b"), 3U << 19);
  EXPECT_EQ(parse_bytes("1G", "-b"), 1U << 30);
  EXPECT_EQ(parse_bytes("8MiB", "-b"), 8U << 20);
  for (const char* bad : {"", "K", "8MB", "8X", "-8", "nan", "inf", "3", "1e99"}) {
    EXPECT_THROW((void)parse_bytes(bad, "-b"), InputError) << bad;
  }
}

TEST(Hollow, MessagesHaveTheirSizeAndNoMemoryOfTheirOwn) {
  const comm::Region memory = hollow_memory(4 << 20);
  ASSERT_EQ(memory.bytes.size(), 4U << 20);
  memory.bytes[5] = std::byte{42};
  EXPECT_EQ(memory.bytes[(3 << 20) + 5], std::byte{42});
  HollowBlocks blocks(memory, 10, 3);
  EXPECT_EQ(blocks.outgoing({0, {0, 1, 2}}, schedule::OnArrival::kCopy).bytes.size(), 40U);
  EXPECT_EQ(blocks.outgoing({0, {0}}, schedule::OnArrival::kCopy).bytes.size(), 12U);
}

// One element that breaks the law on one rank, one whose bits differ: both are seen, and nothing
// else.
TEST(Audit, CountsWhatIsLostAndWhatDiffers) {
  constexpr std::size_t kCount = 70'000;  // more than one chunk
  testing::run_ranks("audit", kRanks, [](comm::Communicator& communicator) {
    const auto share = static_cast<float>(communicator.rank() + 1);
    std::vector<float> gradient(kCount, share);
    const std::vector<float> before(kCount, 2);
    std::vector<float> after(kCount, 1);
    std::vector<float> result(kCount, 3);  // (1 + 2 + 3 + 3 x (2 - 1)) / 3
    const Books books{gradient, before, after, result};
    EXPECT_EQ(audit(communicator, books, Seconds{10}), 0);
    if (communicator.rank() == 1) after[66'000] += 0.001F;
    if (communicator.rank() == 2) result[5] = std::nextafter(3.0F, 4.0F);
    if (communicator.rank() == 0) gradient[7] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(audit(communicator, books, Seconds{10}), communicator.rank() == 0 ? 3 : 0);
  });
}

TEST(Cheapest, HasThePinsAndTheLowestPriceOfAll) {
  const plan::Link link = plan::link_of(from_bits_per_second(1e9), {1e-3});
  const auto pins = plan::parse_pins("shared/star density=1% values=int8 indices=rice");
  const std::size_t count = 10'000'000;
  const plan::Plan chosen = cheapest(pins, 8, count, link);
  EXPECT_TRUE(plan::matches(chosen, pins));
  const auto world = plan::uniform_world(8, link);
  const double price = model::price_exchange(chosen, count, count / 100, world).value;
  for (const char* bcast :
       {"binomial", "chain segments=16", "double-tree segments=16", "scatter-allgather"}) {
    for (const char* reduce : {"ring", "halving-doubling", "tree"}) {
      const auto other = plan::parse_plan(fmt::format(
          "gradients shared/star bcast={} reduce={} density=1% values=int8", bcast, reduce));
      EXPECT_LE(price, model::price_exchange(other, count, count / 100, world).value * (1 + 1e-9))
          << to_string(other);
    }
  }
}

TEST(ParseCount, IsDecimal) {
  EXPECT_EQ(parse_count("25.56M", "--params"), 25'560'000U);
  EXPECT_EQ(parse_count("4k", "--params"), 4000U);
  EXPECT_EQ(parse_count("17", "--params"), 17U);
  for (const char* bad : {"", "x", "1MiB", "-1", "1e12", "nan"})
    EXPECT_THROW((void)parse_count(bad, "--params"), InputError) << bad;
}

TEST(DrawGradient, DiffersFromRankToRankAndNotFromRunToRun) {
  std::vector<float> a(100), b(100), c(100);
  draw_gradient(0, a);
  draw_gradient(1, b);
  draw_gradient(0, c);
  EXPECT_EQ(a, c);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace pliant::bench
