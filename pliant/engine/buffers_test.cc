// SPDX-License-Identifier: MIT
// Tests that unchanged buffers are not sent, and that a rank's changes to its own are not lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/run_engines.h"

namespace pliant::engine {
namespace {

using pliant::testing::run_engines;
using namespace pliant::literals;

constexpr int kRanks = 3;
constexpr std::size_t kEntries = 300;
constexpr std::size_t kBufferEntries = 900;

// A model of one parameter and one buffer that every step of the optimizer changes, or leaves
// alone.
class Worker {
 public:
  Worker(int rank, Communicators communicators, const std::string& plan)
      : rank_(rank),
        engine_(std::move(communicators), {{.name = "p", .size = kEntries}},
                {.pins = plan::parse_pins(plan),
                 .updates = true,
                 .costs = plan::CostTable{},
                 .deadline = 60_s},
                {{.name = "b", .size = kBufferEntries}}) {
    engine_.rebase(model());
  }

  // As many as the engine takes to exchange once.
  void train_until_exchange() {
    const auto before = engine_.summary().rounds;
    while (engine_.summary().rounds == before) {
      for (float& value : parameter_) value += 0.01F * static_cast<float>(rank_ + 1);
      (void)engine_.step(model());
    }
  }
  // What this rank sends for so many exchanges, in bytes.
  double sent_for(int exchanges) {
    const std::int64_t before = engine_.summary().sent.value;
    for (int e = 0; e < exchanges; ++e) train_until_exchange();
    engine_.settle(model());
    return static_cast<double>(engine_.summary().sent.value - before);
  }
  void settle() { engine_.settle(model()); }
  std::vector<float>& buffer() { return buffer_; }
  Engine& engine() { return engine_; }
  Model model() {
    parameters_ = {parameter_};
    buffers_ = {buffer_};
    return {parameters_, buffers_};
  }

 private:
  int rank_;
  std::vector<float> parameter_ = std::vector<float>(kEntries, 1.0F);
  std::vector<float> buffer_ = std::vector<float>(kBufferEntries, 2.0F);
  std::vector<std::span<float>> parameters_, buffers_;
  Engine engine_;
};

const std::vector<std::string> kPlans = {
    "updates every=1 late=0 dense", "updates every=1 late=1 dense",
    "updates every=4 late=2 union density=10%", "updates every=1 late=4 dense"};

TEST(Buffers, StayAtHomeWhileNobodyChangesThem) {
  for (const std::string& plan : kPlans) {
    run_engines(plan, kRanks, 1, [&](int rank, Communicators communicators) {
      Worker worker(rank, std::move(communicators), plan);
      const double travelling = worker.sent_for(4);
      for (int e = 0; e < 16; ++e) worker.train_until_exchange();
      const double at_home = worker.sent_for(4);
      // A rank sends at least (N-1)/N of a dense vector; settling has the buffers either way.
      EXPECT_LT(at_home, travelling - 3.0 * kBufferEntries * sizeof(float) * (kRanks - 1) / kRanks)
          << plan;
      EXPECT_EQ(worker.buffer(), std::vector<float>(kBufferEntries, 2.0F)) << plan;
    });
  }
}

TEST(Buffers, AreAveragedAgainOnceOneRankChangesIts) {
  for (const std::string& plan : kPlans) {
    run_engines(plan, kRanks, 1, [&](int rank, Communicators communicators) {
      Worker worker(rank, std::move(communicators), plan);
      for (int e = 0; e < 20; ++e) worker.train_until_exchange();
      if (rank == 1) std::ranges::fill(worker.buffer(), 5.0F);
      for (int e = 0; e < 14; ++e) worker.train_until_exchange();
      EXPECT_EQ(worker.engine().agreed_buffers().front(), std::vector<float>(kBufferEntries, 3.0F))
          << plan << ": without settling";
      worker.settle();
      EXPECT_EQ(worker.buffer(), std::vector<float>(kBufferEntries, 3.0F)) << plan;
    });
  }
}

TEST(Buffers, AreAveragedBySettlingWhereverTheyAre) {
  for (const std::string& plan : kPlans) {
    run_engines(plan, kRanks, 1, [&](int rank, Communicators communicators) {
      Worker worker(rank, std::move(communicators), plan);
      for (int e = 0; e < 20; ++e) worker.train_until_exchange();
      if (rank == 2) std::ranges::fill(worker.buffer(), -1.0F);
      worker.settle();
      EXPECT_EQ(worker.buffer(), std::vector<float>(kBufferEntries, 1.0F)) << plan;
    });
  }
}

TEST(Buffers, ComeThroughACheckpointTakenWhileTheyAreAtHome) {
  const std::string plan = "updates every=1 late=4 dense";
  run_engines(plan, kRanks, 1, [&](int rank, Communicators communicators) {
    Worker worker(rank, std::move(communicators), plan);
    for (int e = 0; e < 20; ++e) worker.train_until_exchange();
    const State saved = worker.engine().state();
    EXPECT_FALSE(saved.in_flight.empty());
    if (rank == 0) std::ranges::fill(worker.buffer(), 8.0F);
    worker.engine().restore(saved);
    for (int e = 0; e < 14; ++e) worker.train_until_exchange();
    worker.settle();
    EXPECT_EQ(worker.buffer(), std::vector<float>(kBufferEntries, 4.0F));
  });
}

}  // namespace
}  // namespace pliant::engine
