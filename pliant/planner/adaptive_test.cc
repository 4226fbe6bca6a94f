// SPDX-License-Identifier: MIT
// plan=auto: every rank decides for itself and all decide the same, whatever their clocks and
// delays show them.
#include "pliant/planner/adaptive.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <random>
#include <sstream>

#include "tests/support/run_engines.h"

namespace pliant::planner {
namespace {

using pliant::testing::run_engines;
using pliant::testing::run_failing_engines;
using namespace pliant::literals;

AdaptivePolicy::Setup setup(int ranks) {
  return {.ranks = ranks,
          .lanes = 2,
          .costs = {},
          .control = {.candidates = {.updates = true, .backend_all_reduce = false}}};
}

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

// Records as ranks of a network would send them: everybody's own noise, the same truth.
std::vector<Record> records(int ranks, std::uint64_t round, std::mt19937_64& random, double wire) {
  std::lognormal_distribution<double> noise(0, 0.2);
  std::vector<Record> all;
  for (int r = 0; r < ranks; ++r) {
    Record record{.step = round,
                  .whole = static_cast<float>(0.05 * noise(random) + wire),
                  .exposed = static_cast<float>(wire)};
    record.lead = 0.03F;
    record.wire[0] = static_cast<float>(wire * noise(random));
    record.control = static_cast<float>(1e-3 * noise(random));
    all.push_back(record);
  }
  return all;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRounds = 500;  // each takes ten times longer there
constexpr int kSteps = 40;
constexpr int kTrials = 2;
constexpr std::size_t kLiveDecisions = 1'000;
constexpr int kShortestLife = 25;
#else
constexpr std::uint64_t kRounds = 25'000;
constexpr int kSteps = 300;
constexpr int kTrials = 10;
constexpr std::size_t kLiveDecisions = 100'000;
constexpr int kShortestLife = 500;
#endif

// 100,000 decisions: policies fed the same bytes never part, through jumps of the network and saved
// and restored states.
TEST(AdaptivePolicySlow, RanksThatReadTheSameRecordsDecideAlike) {
  constexpr int kRanks = 4;
  std::mt19937_64 random(5);
  std::vector<std::unique_ptr<AdaptivePolicy>> ranks;
  const std::vector<std::size_t> units = {1'000'000, 4'000'000, 2'000'000};
  for (int r = 0; r < kRanks; ++r)
    ranks.push_back(std::make_unique<AdaptivePolicy>(setup(kRanks), units));
  double wire = 0.01;
  std::size_t switches = 0;
  plan::Plan last;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    if (random() % 500 == 0)
      wire = std::pow(10, -3 + 3 * std::uniform_real_distribution<>()(random));
    if (round >= 2) {
      const auto told = records(kRanks, round - 2, random, wire);
      for (auto& rank : ranks) rank->take_in(told);
    }
    const plan::Plan plan = ranks.front()->choose(round).plan;
    for (auto& rank : ranks) ASSERT_EQ(rank->choose(round).plan, plan) << "round " << round;
    switches += static_cast<std::size_t>(plan != last);
    last = plan;
    if (random() % (kRounds / 5) == 0) {  // everybody is restored from its own checkpoint
      for (auto& rank : ranks) {
        auto restored = std::make_unique<AdaptivePolicy>(setup(kRanks), units);
        restored->restore(rank->to_text());
        rank = std::move(restored);
      }
    }
  }
  EXPECT_GT(switches, kRounds / 2'500);
}

std::vector<Record> plain_records(int ranks, std::uint64_t round) {
  Record record{.step = round,
                .whole = 0.05F,
                .exposed = 0.01F,
                .lead = 0.03F,
                .control = 1e-3F,
                .wire = {0.01F}};
  return std::vector<Record>(static_cast<std::size_t>(ranks), record);
}

// Ranks, fields and values are named, nothing is learnt, and the plan in force stays.
TEST(AdaptivePolicy, IgnoresTimesThatNobodyCanHaveMeasured) {
  std::vector<std::string> said;
  auto with_log = setup(3);
  with_log.log = [&](Severity severity, std::string_view text) {
    if (severity == Severity::kWarning) said.emplace_back(text);
  };
  AdaptivePolicy policy(with_log, {1'000'000});
  for (std::uint64_t round = 0; round < 6; ++round) {
    (void)policy.choose(round);
    policy.take_in(plain_records(3, round));
  }
  ASSERT_TRUE(said.empty()) << said.front();
  const plan::Plan before = policy.choose(6).plan;
  const model::Inputs known = policy.inputs();
  auto bad = plain_records(3, 6);
  bad[1].wire[0] = std::nanf("");
  policy.take_in(bad);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("rank 1 says that an exchange took nan s"), std::string::npos) << said[0];
  EXPECT_EQ(policy.inputs(), known);
  EXPECT_EQ(policy.choose(7).plan, before);
  bad = plain_records(3, 7);
  bad[2].whole = -1;
  policy.take_in(bad);
  EXPECT_NE(said.back().find("rank 2 says that its step took -1 s"), std::string::npos)
      << said.back();
}

// Updates: what landing and sending took of the training thread is not compute.
TEST(AdaptivePolicy, ComputeIsWhatExchangesLeave) {
  auto updates = setup(2);
  updates.control.candidates.pins = plan::parse_pins("updates every=2 late=1 union density=10%");
  AdaptivePolicy policy(updates, {1'000'000});
  for (std::uint64_t round = 0; round < 12; ++round) {
    (void)policy.choose(round);
    auto all = plain_records(2, round);
    for (Record& record : all) record.coding = 0.008F;
    policy.take_in(all);
  }
  EXPECT_NEAR(policy.inputs().compute.value, (0.05 - 0.01 - 0.008) / 2, 1e-6);
}

TEST(AdaptivePolicy, ResultsReachThePredictions) {
  auto fixed = setup(4);
  AdaptivePolicy policy(fixed, {1'000'000});
  const auto plan = plan::parse_plan("gradients union density=1%");
  EXPECT_TRUE(policy.inputs().gain.points.empty());
  for (int i = 0; i < 5; ++i)
    policy.note_result(plan, {.updated_fraction = 1 - std::pow(0.99, 4), .gain = 0.3});
  ASSERT_EQ(policy.inputs().gain.points.size(), 1U);
  EXPECT_EQ(policy.inputs().gain.points[0], (std::pair{0.01, 0.3}));
  ASSERT_TRUE(policy.inputs().overlap.has_value());
  EXPECT_LT(*policy.inputs().overlap, 0.02) << "selections that share no more than chance";
  AdaptivePolicy restored(fixed, {1'000'000});
  restored.restore(policy.to_text());
  EXPECT_EQ(restored.inputs().gain, policy.inputs().gain);
}

// Each unit in its turn; the last one is ready when compute is over. Other units are other
// measurements.
TEST(AdaptivePolicy, KnowsWhenEachBucketIsReady) {
  auto gradients = setup(2);
  gradients.control.candidates.pins = plan::parse_pins("gradients");
  const std::vector<std::size_t> units = {1'000'000, 2'000'000, 1'000'000, 500'000};
  AdaptivePolicy policy(gradients, units);
  const std::array<float, 3> leads = {
      0.03F, 0.004F, 0.003F};  // by their sizes the second would be ready much sooner
  for (std::uint64_t round = 0; round < 12; ++round) {
    (void)policy.choose(round);
    auto all = plain_records(2, round);
    for (Record& record : all)
      record.lead = round == 0 ? 0 : leads.at(reported_unit(round - 1, units.size()));
    policy.take_in(all);
  }
  const auto ready_before_the_end = [](const AdaptivePolicy& of, std::size_t unit) {
    return of.inputs().compute.value - of.inputs().buckets[unit].ready.value;
  };
  AdaptivePolicy restored(gradients, units);
  restored.restore(policy.to_text());
  for (const AdaptivePolicy* each : {&policy, &restored}) {
    for (std::size_t u = 0; u < leads.size(); ++u)
      EXPECT_NEAR(ready_before_the_end(*each, u), leads.at(u), 1e-6) << u;
    EXPECT_EQ(ready_before_the_end(*each, 3), 0);
  }
  policy.note_units({4'000'000, 500'000});
  EXPECT_NEAR(ready_before_the_end(policy, 0), 0.66 * policy.inputs().compute.value, 1e-6);
}

TEST(AdaptivePolicy, KnowsWhatCodingTakesBesideTraining) {
  auto sparse = setup(2);
  for (std::size_t o = 0; o < plan::kOperationNames.size(); ++o) {
    sparse.costs.set(static_cast<plan::Operation>(o), {.ns_per_element = 1, .ns_per_entry = 5});
  }
  const auto coding_after = [&](const char* pins, double factor) {
    sparse.control.candidates.pins = plan::parse_pins(pins);
    AdaptivePolicy policy(sparse, {1'000'000});
    for (std::uint64_t round = 0; round < 10; ++round) {
      const plan::Plan plan = policy.choose(round).plan;
      auto all = plain_records(2, round);
      all[1].coding = static_cast<float>(factor * model::coding_of(plan, policy.inputs()).value);
      policy.take_in(all);
    }
    AdaptivePolicy restored(sparse, {1'000'000});
    restored.restore(policy.to_text());
    EXPECT_EQ(restored.inputs().coding, policy.inputs().coding);
    return policy.inputs().coding;
  };
  EXPECT_NEAR(coding_after("gradients union density=10%", 1.7), 1.7, 1e-5);
  EXPECT_NEAR(coding_after("updates union density=10%", 0.8), 0.8, 1e-5);
  EXPECT_EQ(coding_after("gradients union density=10%", 100), 4) << "that was something else";
  EXPECT_EQ(coding_after("gradients dense values=f32", 1.7), 1) << "nothing is coded";
}

// What engines tell each other of their buckets is what happened: here the first comes well before
// the others.
TEST(Adaptive, EnginesTellWhenTheirBucketsCame) {
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

TEST(AdaptivePolicy, SaysTheSameWhenAskedAgain) {
  AdaptivePolicy policy(setup(2), {1000});
  const auto first = policy.choose(0);
  EXPECT_EQ(policy.choose(0).plan, first.plan);
  EXPECT_FALSE(first.reason.empty());
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
        chronicle.compare(engine.summary().steps, to_string(engine.plan()));
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

// What happens in one life of a group of engines; drawn alike on all ranks.
struct Life {
  int lanes;
  int steps;
  int victim;  // the rank that ends without a word, or none
  int when;
  std::vector<int> switches;  // steps at which the plan is pinned anew

  static Life draw(std::mt19937_64& random, int ranks) {
    Life life{.lanes = static_cast<int>(random() % 3),
              .steps = kShortestLife + static_cast<int>(random() % (6 * kShortestLife)),
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
    chronicle.compare(engine.summary().steps, to_string(engine.plan()));
  }
  if (engine.kind() == plan::Kind::kUpdates) engine.settle({parameters});
}

// Engines that live, switch and fail as chance has it, until 100,000 plans have been compared:
// never two in one step, never a hang.
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
}  // namespace pliant::planner
