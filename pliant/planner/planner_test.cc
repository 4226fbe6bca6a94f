// SPDX-License-Identifier: MIT
#include "pliant/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <random>

#include "pliant/common/errors.h"

namespace pliant::planner {
namespace {

using agree::Record;
using testing::HasSubstr;

Setup setup(int ranks) {
  return {.ranks = ranks,
          .lanes = 2,
          .control = {.candidates = {.updates = true, .backend_all_reduce = false}}};
}

// Records as ranks of a network would send them: each rank has its own noise on the same truth.
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
#else
constexpr std::uint64_t kRounds = 25'000;
#endif

// 100,000 decisions: planners that are given the same bytes never differ, through jumps of the
// network and saved and restored states.
TEST(PlannerSlow, RanksThatReadTheSameRecordsDecideAlike) {
  constexpr int kRanks = 4;
  std::mt19937_64 random(5);
  std::vector<std::unique_ptr<Planner>> ranks;
  const std::vector<std::size_t> units = {1'000'000, 4'000'000, 2'000'000};
  for (int r = 0; r < kRanks; ++r) ranks.push_back(std::make_unique<Planner>(setup(kRanks), units));
  double wire = 0.01;
  std::size_t switches = 0;
  plan::Plan last;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    if (random() % 500 == 0)
      wire = std::pow(10, -3 + 3 * std::uniform_real_distribution<>()(random));
    if (round >= 2) {
      const auto all = records(kRanks, round - 2, random, wire);
      for (auto& rank : ranks) rank->take_in(all);
    }
    const plan::Plan plan = ranks.front()->choose(round).plan;
    for (auto& rank : ranks) ASSERT_EQ(rank->choose(round).plan, plan) << "round " << round;
    switches += static_cast<std::size_t>(plan != last);
    last = plan;
    if (random() % (kRounds / 5) == 0) {  // everybody is restored from its own checkpoint
      for (auto& rank : ranks) {
        auto restored = std::make_unique<Planner>(setup(kRanks), units);
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
TEST(Planner, IgnoresTimesThatNobodyCanHaveMeasured) {
  std::vector<std::string> said;
  auto with_log = setup(3);
  with_log.log = [&](Severity severity, std::string_view text) {
    if (severity == Severity::kWarning) said.emplace_back(text);
  };
  Planner planner(with_log, {1'000'000});
  for (std::uint64_t round = 0; round < 6; ++round) {
    (void)planner.choose(round);
    planner.take_in(plain_records(3, round));
  }
  ASSERT_TRUE(said.empty()) << said.front();
  const plan::Plan before = planner.choose(6).plan;
  const model::Inputs known = planner.inputs();
  auto bad = plain_records(3, 6);
  bad[1].wire[0] = std::nanf("");
  planner.take_in(bad);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("rank 1 says that an exchange took nan s"), std::string::npos) << said[0];
  EXPECT_EQ(planner.inputs(), known);
  EXPECT_EQ(planner.choose(7).plan, before);
  bad = plain_records(3, 7);
  bad[2].whole = -1;
  planner.take_in(bad);
  EXPECT_NE(said.back().find("rank 2 says that its step took -1 s"), std::string::npos)
      << said.back();
}

// Updates: what landing and sending took of the training thread is not compute.
TEST(Planner, ComputeIsWhatExchangesLeave) {
  auto updates = setup(2);
  updates.pins = plan::parse_pins("updates every=2 late=1 union density=10%");
  Planner planner(updates, {1'000'000});
  for (std::uint64_t round = 0; round < 12; ++round) {
    (void)planner.choose(round);
    auto all = plain_records(2, round);
    for (Record& record : all) record.coding = 0.008F;
    planner.take_in(all);
  }
  EXPECT_NEAR(planner.inputs().compute.value, (0.05 - 0.01 - 0.008) / 2, 1e-6);
}

TEST(Planner, ResultsReachThePredictions) {
  auto fixed = setup(4);
  Planner planner(fixed, {1'000'000});
  const auto plan = plan::parse_plan("gradients union density=1%");
  EXPECT_TRUE(planner.inputs().gain.points.empty());
  for (int i = 0; i < 5; ++i)
    planner.note_result(plan, {.updated_fraction = 1 - std::pow(0.99, 4), .gain = 0.3});
  ASSERT_EQ(planner.inputs().gain.points.size(), 1U);
  EXPECT_EQ(planner.inputs().gain.points[0], (std::pair{0.01, 0.3}));
  ASSERT_TRUE(planner.inputs().overlap.has_value());
  EXPECT_LT(*planner.inputs().overlap, 0.02) << "selections that share no more than chance";
  Planner restored(fixed, {1'000'000});
  restored.restore(planner.to_text());
  EXPECT_EQ(restored.inputs().gain, planner.inputs().gain);
}

// Each unit in its turn; the last one is ready when compute is over. Other units are other
// measurements.
TEST(Planner, KnowsWhenEachBucketIsReady) {
  auto gradients = setup(2);
  gradients.pins = plan::parse_pins("gradients");
  const std::vector<std::size_t> units = {1'000'000, 2'000'000, 1'000'000, 500'000};
  Planner planner(gradients, units);
  const std::array<float, 3> leads = {
      0.03F, 0.004F, 0.003F};  // by their sizes the second would be ready much sooner
  for (std::uint64_t round = 0; round < 12; ++round) {
    (void)planner.choose(round);
    auto all = plain_records(2, round);
    for (Record& record : all)
      record.lead = round == 0 ? 0 : leads.at(agree::reported_unit(round - 1, units.size()));
    planner.take_in(all);
  }
  const auto ready_before_the_end = [](const Planner& of, std::size_t unit) {
    return of.inputs().compute.value - of.inputs().buckets[unit].ready.value;
  };
  Planner restored(gradients, units);
  restored.restore(planner.to_text());
  for (const Planner* each : {&planner, &restored}) {
    for (std::size_t u = 0; u < leads.size(); ++u)
      EXPECT_NEAR(ready_before_the_end(*each, u), leads.at(u), 1e-6) << u;
    EXPECT_EQ(ready_before_the_end(*each, 3), 0);
  }
  planner.set_units({4'000'000, 500'000});
  EXPECT_NEAR(ready_before_the_end(planner, 0), 0.66 * planner.inputs().compute.value, 1e-6);
}

TEST(Planner, KnowsWhatCodingTakesBesideTraining) {
  auto sparse = setup(2);
  for (std::size_t o = 0; o < plan::kOperationNames.size(); ++o) {
    sparse.costs.set(static_cast<plan::Operation>(o), {.ns_per_element = 1, .ns_per_entry = 5});
  }
  const auto coding_after = [&](const char* pins, double factor) {
    sparse.pins = plan::parse_pins(pins);
    Planner planner(sparse, {1'000'000});
    for (std::uint64_t round = 0; round < 10; ++round) {
      const plan::Plan plan = planner.choose(round).plan;
      auto all = plain_records(2, round);
      all[1].coding = static_cast<float>(factor * model::coding_of(plan, planner.inputs()).value);
      planner.take_in(all);
    }
    Planner restored(sparse, {1'000'000});
    restored.restore(planner.to_text());
    EXPECT_EQ(restored.inputs().coding, planner.inputs().coding);
    return planner.inputs().coding;
  };
  EXPECT_NEAR(coding_after("gradients union", 1.7), 1.7, 1e-5);
  EXPECT_NEAR(coding_after("updates union", 0.8), 0.8, 1e-5);
  EXPECT_EQ(coding_after("gradients union", 100), 4) << "that was something else";
  EXPECT_EQ(coding_after("gradients dense values=f32", 1.7), 1) << "nothing is coded";
}

TEST(Planner, SaysTheSameWhenAskedAgain) {
  Planner planner(setup(2), {1000});
  const auto first = planner.choose(0);
  EXPECT_EQ(planner.choose(0).plan, first.plan);
  EXPECT_FALSE(first.reason.empty());
}

// -- pinned plans --

Setup pinned(const char* pins, int ranks = 3) {
  Setup made = setup(ranks);
  made.pins = plan::parse_pins(pins);
  return made;
}

std::vector<std::string> said_by(Setup made, Severity wanted) {
  std::vector<std::string> said;
  made.log = [&](Severity severity, std::string_view text) {
    if (severity == wanted) said.emplace_back(text);
  };
  Planner planner(made, {1'000'000});
  for (std::uint64_t round = 0; round < 3; ++round) (void)planner.choose(round);
  return said;
}

// Goal steps promises a model as good after the same steps: whoever pins it away is told once.
TEST(Planner, WarnsOnceWherePinsLeaveTooLittleWorth) {
  const char* const pins = "updates every=4";
  const auto warnings = said_by(pinned(pins), Severity::kWarning);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("a step is worth 0."));
  EXPECT_THAT(warnings[0], HasSubstr("goal time"));
  auto for_time = pinned(pins);
  for_time.control.goal = control::Goal::kTime;
  EXPECT_TRUE(said_by(for_time, Severity::kWarning).empty());
  EXPECT_TRUE(said_by(pinned(pins, 1), Severity::kWarning).empty()) << "nothing is exchanged";
  for (const char* enough : {"auto", "updates", "gradients dense values=int8"})
    EXPECT_TRUE(said_by(pinned(enough), Severity::kWarning).empty()) << enough;
}

// A goal changes nothing under a whole plan, so nothing is advised.
TEST(Planner, OnlyMentionsWhatWholePlansAreWorth) {
  for (const char* pins : {"updates every=4 late=1 dense", "gradients union density=1%"}) {
    EXPECT_TRUE(said_by(pinned(pins), Severity::kWarning).empty()) << pins;
    const auto said = said_by(pinned(pins), Severity::kInfo);
    ASSERT_EQ(said.size(), 1U) << pins;
    EXPECT_THAT(said[0], HasSubstr("a step is worth 0."));
    EXPECT_THAT(said[0], Not(HasSubstr("goal")));
  }
}

TEST(Planner, NeverDepartsFromCompletePins) {
  Planner planner(pinned("gradients union density=1%"), {1'000'000});
  for (std::uint64_t round = 0; round < 200; ++round) {
    if (round >= 2) planner.take_in(plain_records(3, round - 2));
    const Choice choice = planner.choose(round);
    ASSERT_EQ(choice.plan, plan::parse_plan("gradients union density=1%"));
    EXPECT_EQ(choice.predicted, Seconds{}) << "deadlines do not depend on predictions";
    EXPECT_EQ(choice.decision, nullptr);
  }
}

TEST(Planner, ChoosesNothingWhereNothingMayBeChosen) {
  auto fixed = pinned("srs");
  fixed.control.policy = control::Policy::kFixed;
  EXPECT_EQ(Planner(fixed, {1'000}).choose(0).plan, plan::parse_plan("gradients srs density=1%"));
  EXPECT_EQ(Planner(pinned("auto", 1), {1'000}).choose(0).plan, plan::Plan{});
  EXPECT_NE(Planner(pinned("auto"), {1'000}).choose(0).decision, nullptr);
}

// The run log has predictions under every plan.
TEST(Planner, MeasuresAndPredictsAPinnedPlan) {
  Planner planner(pinned("gradients union density=1%"), {1'000'000, 500'000});
  EXPECT_FALSE(planner.outlook(planner.choose(0).plan).link);
  for (std::uint64_t round = 0; round < 10; ++round) {
    (void)planner.choose(round);
    planner.take_in(plain_records(3, round));
  }
  const Outlook outlook = planner.outlook(planner.choose(9).plan);
  ASSERT_TRUE(outlook.link && outlook.wire && outlook.dense_step);
  EXPECT_NEAR(outlook.wire->value, 0.01, 0.001);
}

TEST(Planner, WarmsUpAPinnedPlan) {
  auto ramp = pinned("gradients srs density=1%");
  ramp.warm_up = control::WarmUp::kRamp;
  ramp.warm_up_steps = 60;
  Planner planner(ramp, {1'000'000});
  EXPECT_EQ(planner.choose(0).plan.density, 1);
  EXPECT_EQ(planner.choose(60).plan.density, 0.01);
}

TEST(Planner, WithAPinnedPlanHasNoStateToSave) {
  Planner planner(pinned("gradients dense"), {1'000});
  (void)planner.choose(0);
  EXPECT_EQ(planner.to_text(), "");
  Planner chooses(setup(3), {1'000});
  const auto before = planner.inputs();
  planner.restore(chooses.to_text());
  EXPECT_EQ(planner.inputs(), before);
  EXPECT_NO_THROW(chooses.restore("")) << "saved under a pinned plan";
}

TEST(Planner, PlansForAGivenNetwork) {
  Planner planner(setup(3), {1'000'000});
  const plan::Link link = plan::parse_link("10mbit,50ms");
  planner.set_network(link);
  EXPECT_EQ(planner.inputs().world, plan::uniform_world(3, link));
  planner.set_network(std::nullopt);
  EXPECT_EQ(planner.inputs().world, plan::uniform_world(3, observe::kFirstGuess));
}

TEST(Planner, RefusesATextThatIsNoState) {
  Planner planner(setup(3), {1'000});
  const std::string good = planner.to_text();
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    try {
      planner.restore(bad);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("compute 0", "compute x"),
              HasSubstr("compute is 'x', which is not a number"));
  EXPECT_THAT(refusal("coding 0", "codin 0"), HasSubstr("'codin 0' instead of coding"));
  EXPECT_EQ(planner.to_text(), good) << "a refused text changes nothing";
}

}  // namespace
}  // namespace pliant::planner
