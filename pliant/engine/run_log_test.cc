// SPDX-License-Identifier: MIT
#include "pliant/runlog/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "pliant/common/errors.h"
#include "pliant/engine/engine.h"
#include "pliant/kernels/sampled_energy.h"
#include "tests/support/run_engines.h"

namespace pliant::engine {
namespace {

using nlohmann::json;
using pliant::testing::run_engines;
using pliant::testing::run_failing_engines;
using ::testing::HasSubstr;
using namespace pliant::literals;

constexpr std::size_t kEntries = 5000;
constexpr int kSteps = 12;

class EngineLogTest : public ::testing::Test {
 protected:
  EngineLogTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("engine_log_test-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~EngineLogTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return (folder_ / "run-{rank}.jsonl").string(); }
  [[nodiscard]] std::vector<json> read(int rank) const {
    std::ifstream in(folder_ / ("run-" + std::to_string(rank) + ".jsonl"));
    std::vector<json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }
  [[nodiscard]] static std::vector<json> of_type(const std::vector<json>& lines,
                                                 const std::string& type) {
    std::vector<json> some;
    for (const json& line : lines) {
      if (line["type"] == type) some.push_back(line);
    }
    return some;
  }

  [[nodiscard]] Options options(const std::string& plan) const {
    return {.pins = plan::parse_pins(plan),
            .updates = true,
            .costs = plan::CostTable{},
            .deadline = 60_s,
            .check_every = 3,
            .run_log = {.path = path()}};
  }

  const std::filesystem::path folder_;
};

std::vector<float> random_values(int rank, int step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 1000 +
                         static_cast<std::uint64_t>(step));
  std::normal_distribution<float> normal;
  std::vector<float> values(kEntries);
  for (float& value : values) value = normal(random);
  return values;
}

// Trains a little, whatever the kind. Returns what the engine says it has sent.
Summary train(Engine& engine, int rank) {
  std::vector<float> weights(kEntries, 0.0F);
  std::vector<float> statistics(7, 0.0F);
  const std::array<std::span<float>, 1> parameters = {weights};
  const std::array<std::span<float>, 1> buffers = {statistics};
  const Model model{parameters, buffers};
  if (engine.kind() == plan::Kind::kUpdates) engine.rebase(model);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> gradient = random_values(rank, step);
    const std::array<std::span<float>, 1> gradients = {gradient};
    const bool updates = engine.kind() == plan::Kind::kUpdates;
    if (!updates) engine.average(gradients);
    for (std::size_t i = 0; i < kEntries; ++i) weights[i] -= 0.1F * gradient[i];
    for (float& value : statistics) value += static_cast<float>(rank);
    if (engine.kind() == plan::Kind::kUpdates)
      engine.step(model);  // after the last average it takes the base
  }
  if (engine.kind() == plan::Kind::kUpdates) engine.settle(model);
  engine.close();
  return engine.summary();
}

// All changes of plan as the summary writes them.
std::vector<std::string> changes(const std::vector<json>& lines) {
  std::vector<std::string> out;
  for (const json& line : lines) {
    if (line["type"] == "decision" && line["changed"].get<bool>())
      out.push_back("step " + std::to_string(line["step"].get<int>()) + ": " +
                    line["short"].get<std::string>());
  }
  return out;
}

TEST_F(EngineLogTest, EveryStepHasALineAndBytesAddUp) {
  for (const int lanes : {0, 2}) {
    for (const std::string plan :
         {"gradients dense", "gradients union density=5% fuse=bucket",
          "gradients shared/star density=2%", "gradients srs density=5%", "auto",
          "updates every=2 late=1 union density=5%", "updates every=1 late=2 srs density=10%",
          "updates every=3 late=0 dense"}) {
      std::vector<Summary> summaries(2);
      run_engines(plan, 2, lanes, [&](int rank, Communicators communicators) {
        Engine engine(std::move(communicators), {{"weights", kEntries}}, options(plan),
                      {{"statistics", 7}});
        summaries[static_cast<std::size_t>(rank)] = train(engine, rank);
      });
      for (int rank = 0; rank < 2; ++rank) {
        SCOPED_TRACE(plan + ", rank " + std::to_string(rank) + ", lanes " + std::to_string(lanes));
        const auto lines = read(rank);
        ASSERT_GE(lines.size(), 3U);
        EXPECT_EQ(lines.front()["type"], "header");
        EXPECT_EQ(lines.back()["type"], "end");
        EXPECT_EQ(lines.back()["status"], "closed");
        const auto steps = of_type(lines, "step");
        ASSERT_EQ(steps.size(), static_cast<std::size_t>(kSteps));
        const Summary& summary = summaries[static_cast<std::size_t>(rank)];
        std::int64_t bytes = 0;
        std::int64_t control = 0;
        std::set<std::string> announced;
        for (const json& line : lines) {
          if (line["type"] == "decision") announced.insert(line["plan"].get<std::string>());
          if (line["type"] != "step") continue;
          EXPECT_TRUE(announced.contains(line["plan"].get<std::string>())) << line;
          bytes += line["bytes"].get<std::int64_t>();
          control += line["control_bytes"].get<std::int64_t>();
        }
        EXPECT_EQ(summary.steps, static_cast<std::uint64_t>(kSteps));
        // The log also has a plan that was chosen ahead and replaced before its round was opened.
        EXPECT_THAT(summary.decisions, ::testing::IsSubsetOf(changes(lines)));
        EXPECT_EQ(control, summary.control_sent.value);
        EXPECT_EQ(bytes + control, summary.sent.value);
        EXPECT_EQ(lines.back()["summary"]["bytes"].get<std::int64_t>(), bytes);
        for (std::size_t s = 0; s < steps.size(); ++s) {
          EXPECT_EQ(steps[s]["step"], s);
          EXPECT_EQ(steps[s]["whole"].is_null(), s + 1 == steps.size()) << steps[s];
          EXPECT_EQ(steps[s]["seen"].is_null(), steps[s]["round"].is_null()) << steps[s];
          if (!steps[s]["round"].is_null()) EXPECT_FALSE(steps[s]["exchanges"].empty()) << steps[s];
          for (const json& exchange : steps[s]["exchanges"]) {
            EXPECT_LE(exchange["begin"].get<double>(), exchange["enter"].get<double>() + 1e-6);
            EXPECT_LE(exchange["enter"].get<double>(), exchange["leave"].get<double>());
            EXPECT_LE(exchange["leave"].get<double>(), exchange["end"].get<double>() + 1e-6);
          }
        }
        EXPECT_FALSE(steps.back()["predicted"].is_null() && !steps.back()["round"].is_null())
            << "a link is known by then, under fixed plans too";
      }
    }
  }
}

// What is dense leaves nothing; one entry in twenty leaves nearly all.
TEST_F(EngineLogTest, TheResidualIsToldInUnitsOfTheContribution) {
  for (const auto& [plan, least, most] : {std::tuple{"gradients dense", 0.0, 0.0},
                                          {"gradients union density=5% values=f32", 0.7, 4.0},
                                          {"updates every=1 late=0 union density=5%", 0.7, 4.0}}) {
    run_engines(plan, 2, 1, [&, plan = std::string(plan)](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), {{"weights", kEntries}}, options(plan),
                    {{"statistics", 7}});
      train(engine, rank);
    });
    for (const json& step : of_type(read(0), "step")) {
      EXPECT_GE(step["residual_ratio"].get<double>(), least) << step;
      EXPECT_LE(step["residual_ratio"].get<double>(), most) << step;
    }
  }
}

TEST_F(EngineLogTest, ALogThatCannotBeWrittenStopsAllRanks) {
  const auto failures =
      run_failing_engines("unwritable", 3, 1, [&](int rank, Communicators communicators) {
        Options mine = options("gradients dense");
        mine.run_log.path = (folder_ / "missing" / "run.jsonl").string();
        (void)rank;
        const Engine engine(std::move(communicators), {{"weights", kEntries}}, mine);
      });
  for (const auto& failure : failures) {
    ASSERT_NE(failure, nullptr);
    try {
      std::rethrow_exception(failure);
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0"));
      EXPECT_THAT(error.what(), HasSubstr("missing/run.jsonl"));
    }
  }
}

TEST_F(EngineLogTest, AFailureIsTheLastLine) {
  (void)run_failing_engines("gone", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), {{"weights", kEntries}}, options("gradients dense"));
    for (int step = 0; step < 5; ++step) {
      if (rank == 1 && step == 3) return;  // and its connections are gone
      std::vector<float> gradient = random_values(rank, step);
      const std::array<std::span<float>, 1> gradients = {gradient};
      engine.average(gradients);
    }
  });
  const auto lines = read(0);
  EXPECT_EQ(lines.back()["type"], "end");
  EXPECT_EQ(lines.back()["status"], "failed");
  EXPECT_FALSE(lines.back()["error"].get<std::string>().empty());
  EXPECT_EQ(of_type(lines, "step").size(), 3U);
}

// The log looks on: it changes no bit of what is learnt.
TEST_F(EngineLogTest, NothingDependsOnTheLog) {
  for (const std::string plan :
       {"gradients union density=5% values=int8", "updates every=2 late=1 srs density=5%"}) {
    std::vector<std::vector<float>> results;
    for (const bool logged : {false, true}) {
      run_engines(plan, 2, 2, [&](int rank, Communicators communicators) {
        Options mine = options(plan);
        if (!logged) mine.run_log = {};
        Engine engine(std::move(communicators), {{"weights", kEntries}}, mine);
        std::vector<float> weights(kEntries, 0.0F);
        const std::array<std::span<float>, 1> parameters = {weights};
        const bool updates = engine.kind() == plan::Kind::kUpdates;
        if (updates) engine.rebase({parameters});
        for (int step = 0; step < kSteps; ++step) {
          std::vector<float> gradient = random_values(rank, step);
          const std::array<std::span<float>, 1> gradients = {gradient};
          if (!updates) engine.average(gradients);
          for (std::size_t i = 0; i < kEntries; ++i) weights[i] -= 0.1F * gradient[i];
          if (updates) engine.step({parameters});
        }
        if (updates) engine.settle({parameters});
        if (rank == 0) results.push_back(weights);
      });
    }
    EXPECT_EQ(results[0], results[1]) << plan;
  }
}

TEST_F(EngineLogTest, TheSampleIsAllOfASmallModelAndAFewBlocksOfALargeOne) {
  const std::vector<float> ones(200'000, 1.0F);
  const std::vector<float> zeros(200'000, 0.0F);
  EXPECT_EQ(kernels::sampled_energy(std::span(ones).first(16'000), kernels::sample_stride(16'000)),
            16'000);
  EXPECT_NEAR(kernels::sampled_energy(ones, kernels::sample_stride(ones.size())), 200'000.0 / 12,
              512);
  EXPECT_EQ(kernels::sampled_energy(ones, zeros, kernels::sample_stride(ones.size())),
            kernels::sampled_energy(ones, kernels::sample_stride(ones.size())));
}

TEST_F(EngineLogTest, LatestIsJsonWithSums) {
  run_engines("latest", 2, 1, [&](int rank, Communicators communicators) {
    Options mine = options("gradients dense");
    mine.run_log = {.watched = true};
    Engine engine(std::move(communicators), {{"weights", kEntries}}, mine, {{"statistics", 7}});
    EXPECT_TRUE(json::parse(engine.log().latest())["step"].is_null());
    const Summary summary = train(engine, rank);
    const json latest = json::parse(engine.log().latest());
    EXPECT_EQ(latest["summary"]["steps"], kSteps);
    EXPECT_EQ(latest["summary"]["bytes"].get<std::int64_t>() +
                  latest["summary"]["control_bytes"].get<std::int64_t>(),
              summary.sent.value);
    EXPECT_EQ(latest["step"]["step"], kSteps - 1);
  });
}

}  // namespace
}  // namespace pliant::engine
