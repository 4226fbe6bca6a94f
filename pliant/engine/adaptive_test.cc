// SPDX-License-Identifier: MIT
// Live engines under plan=auto: every rank decides for itself, and all choose the same plan
// whatever their clocks and delays are.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <random>
#include <sstream>

#include "tests/support/run_engines.h"

namespace pliant::engine {
namespace {

using pliant::testing::run_engines;
using pliant::testing::run_failing_engines;
using namespace pliant::literals;

// Which plan was in force in which round, as every rank sees it: the first to come writes, the
// others must have the same.
class Chronicle {
 public:
  void compare(std::uint64_t round, const std::string& plan) {
    const std::lock_guard lock(mutex_);
    const auto [known, fresh] = plans_.emplace(round, plan);
    ++compared_;
    EXPECT_EQ(known->second, plan) << "two plans in round " << round;
  }
  [[nodiscard]] std::size_t compared() const { return compared_; }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::string> plans_;
  std::size_t compared_ = 0;
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSteps = 40;  // each takes ten times longer there
constexpr int kTrials = 2;
constexpr std::size_t kLiveDecisions = 1'000;
constexpr int kShortestLife = 25;
#else
constexpr int kSteps = 300;
constexpr int kTrials = 10;
constexpr std::size_t kLiveDecisions = 100'000;
constexpr int kShortestLife = 500;
#endif

// The recorded leads of buckets are what happened: here the first comes well before the others.
TEST(Adaptive, EnginesRecordWhenTheirBucketsCame) {
  run_engines("gradients", 2, 2, [&](int, Communicators communicators) {
    const std::vector<Parameter> parameters = {
        {.name = "a", .size = 2'000}, {.name = "b", .size = 2'000}, {.name = "c", .size = 2'000}};
    Options options{
        .pins = plan::parse_pins("gradients"), .costs = plan::CostTable{}, .deadline = 60_s};
    Engine engine(std::move(communicators), parameters, options);
    std::vector<std::vector<float>> gradients(parameters.size(), std::vector<float>(2'000, 1.0F));
    for (int step = 0; step < 24; ++step) {
      for (std::size_t p = 0; p < gradients.size(); ++p) {
        engine.gradients().submit({.pieces = {{static_cast<int>(p), gradients[p]}}});
        if (p == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      engine.gradients().end_step();
    }
    const std::string text = engine.state().policy;
    std::istringstream leads(text.substr(text.find("\nleads ") + 7));
    double first = 0;
    double second = 0;
    ASSERT_TRUE(leads >> first >> second) << text;
    EXPECT_GE(first, 0.02);
    EXPECT_GT(second, 0);
    EXPECT_LT(second, first);
  });
}

// Live engines on threads, both kinds, ranks of uneven speed.
TEST(Adaptive, EnginesNeverRunTwoPlansAtOnce) {
  for (const int lanes : {0, 2}) {
    Chronicle chronicle;
    run_engines("auto", 3, lanes, [&](int rank, Communicators communicators) {
      Options options{
          .updates = true, .costs = plan::CostTable{}, .deadline = 60_s, .check_every = 10};
      options.control.warm_up_steps = 20;
      options.control.ramp_steps = 5;
      Engine engine(std::move(communicators),
                    {{.name = "a", .size = 30'000}, {.name = "b", .size = 2'000}}, options);
      std::mt19937_64 random(static_cast<std::uint64_t>(rank));
      std::vector<std::vector<float>> tensors = {std::vector<float>(30'000, 1.0F),
                                                 std::vector<float>(2'000, 1.0F)};
      const std::vector<std::span<float>> parameters(tensors.begin(), tensors.end());
      if (engine.kind() == plan::Kind::kUpdates) engine.rebase({parameters});
      std::normal_distribution<float> normal;
      for (int step = 0; step < kSteps; ++step) {
        if (step == kSteps / 2)
          engine.set_plan(plan::parse_pins("updates"));  // and the rest is chosen
        if (step == 3 * kSteps / 4) engine.set_plan(plan::parse_pins("auto"));
        if (random() % 8 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
        if (engine.kind() == plan::Kind::kGradients) {
          std::vector<std::vector<float>> gradient = tensors;
          for (auto& tensor : gradient)
            std::ranges::generate(tensor, [&] { return normal(random); });
          engine.average(std::vector<std::span<float>>(gradient.begin(), gradient.end()));
          for (std::size_t t = 0; t < tensors.size(); ++t) {
            for (std::size_t i = 0; i < tensors[t].size(); ++i)
              tensors[t][i] -= 0.01F * gradient[t][i];
          }
        } else {
          for (auto& tensor : tensors) {
            for (float& value : tensor) value += 0.01F * normal(random);
          }
        }
        engine.step({parameters});
        chronicle.compare(engine.summary().rounds, to_string(engine.plan()));
      }
      if (engine.kind() == plan::Kind::kUpdates) engine.settle({parameters});
    });
    EXPECT_EQ(chronicle.compared(), 3U * kSteps);
  }
}

TEST(Adaptive, ARankThatFailsEndsAllAndHangsNone) {
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto failures = run_failing_engines(
        "auto with a failure", 3, 2, [&](int rank, Communicators communicators) {
          Options options{.updates = true, .costs = plan::CostTable{}, .deadline = 60_s};
          Engine engine(std::move(communicators), {{.name = "a", .size = 5'000}}, options);
          std::vector<float> tensor(5'000, 1.0F);
          const std::vector<std::span<float>> parameters = {tensor};
          std::mt19937_64 random(static_cast<std::uint64_t>(trial));
          const int victim = static_cast<int>(random() % 3);
          const int when = static_cast<int>(random() % 60);
          if (engine.kind() == plan::Kind::kUpdates) engine.rebase({parameters});
          for (int step = 0; step < 100; ++step) {
            if (rank == victim && step == when) return;
            if (engine.kind() == plan::Kind::kGradients) {
              std::vector<float> gradient(5'000, 0.5F);
              engine.average(std::vector<std::span<float>>{gradient});
            }
            engine.step({parameters});
          }
        });
    EXPECT_EQ(std::ranges::count(failures, nullptr), 1) << "trial " << trial;
  }
}

// One life of a group of engines, drawn alike on all ranks.
struct Life {
  int lanes;
  int steps;
  int victim;  // the rank that ends without notice; -1 = none
  int when;
  std::vector<int> switches;  // steps at which the plan is pinned anew

  static Life draw(std::mt19937_64& random, int ranks) {
    Life life{
        .lanes = static_cast<int>(random() % 3),
        .steps = kShortestLife + static_cast<int>(random() % (6 * std::uint64_t{kShortestLife})),
        .victim = -1,
        .when = 0,
        .switches = {}};
    if (random() % 2 == 0) life.victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    life.when = static_cast<int>(random() % static_cast<unsigned>(life.steps));
    for (int i = 0; i < 4; ++i)
      life.switches.push_back(static_cast<int>(random() % static_cast<unsigned>(life.steps)));
    return life;
  }
};

// One rank's part of it: delays are its own.
void live(const Life& life, int rank, Communicators communicators, Chronicle& chronicle) {
  constexpr std::array kPins = {"auto", "updates", "gradients", "updates late=0", "auto"};
  Options options{.updates = true, .costs = plan::CostTable{}, .deadline = 60_s, .check_every = 50};
  options.control.warm_up_steps = 20;
  options.control.ramp_steps = 5;
  options.control.stale_steps = 100;  // trials too
  options.control.trial_period = 20;
  Engine engine(std::move(communicators), {{.name = "a", .size = 96}, {.name = "b", .size = 32}},
                options);
  std::vector<std::vector<float>> tensors = {std::vector<float>(96, 1.0F),
                                             std::vector<float>(32, 1.0F)};
  const std::vector<std::span<float>> parameters(tensors.begin(), tensors.end());
  if (engine.kind() == plan::Kind::kUpdates) engine.rebase({parameters});
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  for (int step = 0; step < life.steps; ++step) {
    if (rank == life.victim && step == life.when) return;
    for (std::size_t i = 0; i < life.switches.size(); ++i) {
      if (step == life.switches[i]) engine.set_plan(plan::parse_pins(kPins.at(i)));
    }
    if (random() % 200 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
    if (engine.kind() == plan::Kind::kGradients) {
      std::vector<std::vector<float>> gradient = {std::vector<float>(96, 0.01F),
                                                  std::vector<float>(32, 0.02F)};
      engine.average(std::vector<std::span<float>>(gradient.begin(), gradient.end()));
    } else {
      for (auto& tensor : tensors) tensor[random() % tensor.size()] += 0.01F;
    }
    engine.step({parameters});
    chronicle.compare(engine.summary().rounds, to_string(engine.plan()));
  }
  if (engine.kind() == plan::Kind::kUpdates) engine.settle({parameters});
}

// Engines that run, switch plans and fail at random, until 100,000 plans have been compared: never
// two plans in one step, never a hang.
TEST(AdaptiveSlow, EnginesAgreeThroughAHundredThousandDecisions) {
  constexpr int kRanks = 4;
  std::mt19937_64 random(11);
  std::size_t decisions = 0;
  int failed = 0;
  for (int lives = 0; decisions < kLiveDecisions || failed == 0;
       ++lives) {  // with few decisions chance may not have had it fail yet
    ASSERT_LT(lives, 1'000);
    const Life life = Life::draw(random, kRanks);
    Chronicle chronicle;
    const auto failures = run_failing_engines(
        "a life", kRanks, life.lanes, [&](int rank, Communicators communicators) {
          live(life, rank, std::move(communicators), chronicle);
        });
    const auto fine = std::ranges::count(failures, nullptr);
    ASSERT_EQ(fine, life.victim < 0 ? kRanks : 1) << "life " << lives;
    failed += life.victim < 0 ? 0 : 1;
    decisions += chronicle.compared();
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace pliant::engine
