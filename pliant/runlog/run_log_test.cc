// SPDX-License-Identifier: MIT
#include "pliant/runlog/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "pliant/common/errors.h"

namespace pliant::runlog {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class RunLogTest : public ::testing::Test {
 protected:
  RunLogTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("run_log_test-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~RunLogTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name = "run.jsonl") const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::unique_ptr<RunLog> open() {
    return std::make_unique<RunLog>(path(), [this] { return Seconds{now_ += 0.001}; });
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.insert(entry.path().filename().string());
    return names;
  }
  [[nodiscard]] std::vector<std::string> lines(const std::string& name = "run.jsonl") const {
    std::ifstream in(path(name));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  [[nodiscard]] json last() const { return json::parse(lines().back()); }

  const std::filesystem::path folder_;
  double now_ = 100;
};

std::set<std::string> keys(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

LogHeader header() {
  return {.versions = {{"pliant", "1"}},
          .command = {"train", "--fast"},
          .world = 4,
          .lanes = 2,
          .parameters = 12,
          .layout = 0xABC,
          .costs = "{}",
          .buckets = {5, 7}};
}

LogStep full_step() {
  LogStep step{.step = 3,
               .plan = "gradients dense",
               .epoch = 1,
               .round = 3,
               .whole = 0.25,
               .compute = 0.2,
               .exposed = 0.05,
               .predicted = 0.01,
               .seen = 0.02};
  step.link = plan::link_of(from_bits_per_second(1e8), {0.01});
  step.link->seconds_per_byte_uncertainty = step.link->seconds_per_byte / 10;
  step.exchanges.push_back({.group = 1,
                            .lane = 0,
                            .begin = {100.5},
                            .enter = {100.6},
                            .leave = {100.7},
                            .end = {100.8},
                            .bytes = {40},
                            .entries = 10});
  return step;
}

TEST_F(RunLogTest, EveryKindOfLineHasTheKeysOfTheDocument) {
  const auto log = open();
  log->write(header());
  EXPECT_EQ(keys(last()),
            (std::set<std::string>{"type", "t", "format", "version", "name", "started", "mono",
                                   "versions", "command", "rank", "world", "lanes", "parameters",
                                   "layout", "options", "optimizer", "costs", "buckets"}));
  EXPECT_EQ(last()["name"], "run");
  EXPECT_EQ(last()["layout"], "0000000000000abc");
  EXPECT_EQ(last()["version"], 1);
  EXPECT_TRUE(last()["optimizer"].is_null());

  log->write(full_step());
  EXPECT_EQ(
      keys(last()),
      (std::set<std::string>{"type",       "t",        "step",    "plan",          "epoch",
                             "round",      "whole",    "compute", "exposed",       "coding",
                             "predicted",  "seen",     "bytes",   "control_bytes", "link",
                             "dense_step", "worth",    "updated", "gain",          "residual_ratio",
                             "void",       "exchanges"}));
  EXPECT_EQ(keys(last()["exchanges"][0]),
            (std::set<std::string>{"group", "lane", "begin", "enter", "leave", "end", "bytes",
                                   "entries"}));
  EXPECT_NEAR(last()["link"]["rate"].get<double>(), 1e8, 1);
  EXPECT_NEAR(last()["link"]["rate_sd"].get<double>(), 1e7, 1);
  EXPECT_NEAR(last()["exchanges"][0]["begin"].get<double>(), 0.5, 0.01) << "as t";

  control::Decision details{
      .inputs = "2 ranks", .candidates = 7, .front = {{}}, .chosen = model::Prediction{}};
  log->write(LogDecision{.step = 4, .reason = "because", .details = &details});
  EXPECT_EQ(keys(last()), (std::set<std::string>{"type", "t", "step", "round", "epoch", "plan",
                                                 "from", "changed", "trial", "short", "reason",
                                                 "inputs", "candidates", "front", "chosen"}));
  EXPECT_EQ(keys(last()["front"][0]),
            (std::set<std::string>{"plan", "step", "exchange", "exposed", "efficiency", "updated",
                                   "gain", "bytes"}));
  EXPECT_EQ(keys(last()["chosen"]), keys(last()["front"][0]));

  const std::vector<std::pair<std::string, double>> values = {{"loss", 0.5}, {"worse", NAN}};
  log->note(4, values);
  EXPECT_EQ(last()["values"], (json{{"loss", 0.5}, {"worse", nullptr}}));
  log->phase(5, "slow");
  EXPECT_EQ(last()["name"], "slow");
  log->message(Severity::kWarning, "look");
  EXPECT_EQ(last()["level"], "warning");
  log->end(6, {.error = "a peer is gone"}, {.plan = "gradients dense", .steps = 6, .bytes = {10}});
  EXPECT_EQ(last()["status"], "failed");
  EXPECT_EQ(keys(last()["summary"]), (std::set<std::string>{"plan", "steps", "exchanges", "bytes",
                                                            "control_bytes", "voids"}));
  const std::size_t written = lines().size();
  log->message(Severity::kInfo, "too late");
  EXPECT_EQ(lines().size(), written) << "the end is the last line";
}

TEST_F(RunLogTest, AnyTextIsOneLineOfJson) {
  const auto log = open();
  for (const std::string text : {"a\nb", "\"quoted\\\"", "tab\tnul\x01",
                                 "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "</script>", "\x7F"}) {
    log->message(Severity::kInfo, text);
    EXPECT_EQ(last()["text"], text);
  }
  for (const std::string broken :
       {"\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    log->message(Severity::kInfo, broken + "x");
    EXPECT_THAT(last()["text"].get<std::string>(), HasSubstr("\xEF\xBF\xBD"));
  }
}

TEST_F(RunLogTest, WhatIsNotFiniteIsNull) {
  const auto log = open();
  LogStep step = full_step();
  step.seen = std::numeric_limits<double>::infinity();
  step.gain = NAN;
  log->write(step);
  EXPECT_TRUE(last()["seen"].is_null());
  EXPECT_TRUE(last()["gain"].is_null());
}

TEST_F(RunLogTest, OnlyRankZeroWritesUnlessThePathHasTheRank) {
  EXPECT_EQ(log_path({.path = "a/run.jsonl"}, 0), "a/run.jsonl");
  EXPECT_EQ(log_path({.path = "a/run.jsonl"}, 1), std::nullopt);
  EXPECT_EQ(log_path({.path = "a/run-{rank}.jsonl"}, 12), "a/run-12.jsonl");
  EXPECT_EQ(log_path({.path = "{rank}/run-{rank}.jsonl"}, 12), "12/run-12.jsonl");
  EXPECT_EQ(log_path({}, 0), std::nullopt);
}

TEST_F(RunLogTest, AFileThatCannotBeOpenedIsNamed) {
  try {
    const RunLog log(path("nowhere/run.jsonl"), [] { return Seconds{}; });
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nowhere/run.jsonl"));
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
}

TEST_F(RunLogTest, AFileWithoutAHeaderIsNotLeftBehindNorAnOlderOneMoved) {
  { const auto log = open(); }
  EXPECT_EQ(files(), std::set<std::string>{});
  std::ofstream(path()) << "an older log\n";
  { const auto log = open(); }
  EXPECT_EQ(lines().size(), 1U);
  EXPECT_EQ(files(), std::set<std::string>{"run.jsonl"});
}

TEST_F(RunLogTest, EveryRunKeepsItsLines) {
  for (int run = 0; run < 4; ++run) {
    const auto log = open();
    log->write(header());
    log->phase(0, std::to_string(run));
  }
  EXPECT_EQ(last()["name"], "3");
  for (int run = 0; run < 3; ++run) {
    const auto kept = lines(fmt::format("run.{}.jsonl", run + 1));
    ASSERT_EQ(kept.size(), 2U);
    EXPECT_EQ(json::parse(kept[1])["name"], std::to_string(run));
  }
}

TEST_F(RunLogTest, ARunThatStillWritesKeepsItsLines) {
  const auto first = open();
  first->write(header());
  const auto second = open();
  second->write(header());
  first->phase(0, "first");
  second->phase(0, "second");
  EXPECT_EQ(last()["name"], "second");
  EXPECT_EQ(json::parse(lines("run.1.jsonl").back())["name"], "first");
}

TEST_F(RunLogTest, AnOlderLogBehindALinkIsKeptBesideIt) {
  std::filesystem::create_directory(folder_ / "disk");
  std::ofstream(path("disk/log.jsonl")) << "an older log\n";
  std::filesystem::create_symlink(path("disk/log.jsonl"), path());
  open()->write(header());
  EXPECT_EQ(last()["type"], "header");
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
  EXPECT_EQ(lines("disk/log.1.jsonl").size(), 1U);
}

TEST_F(RunLogTest, OnlyItsOwnerReadsIt) {
  const auto log = open();
  log->write(header());
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(path()).permissions(), perms::owner_read | perms::owner_write);
}

TEST_F(RunLogTest, ADiskThatIsFullIsAFailureAndNoException) {
  RunLog log("/dev/full", [] { return Seconds{}; });
  EXPECT_EQ(log.failure(), std::nullopt);
  log.write(header());
  ASSERT_NE(log.failure(), std::nullopt);
  EXPECT_THAT(*log.failure(), HasSubstr("/dev/full"));
}

TEST_F(RunLogTest, LinesOfManyThreadsStayWhole) {
  const auto log = std::make_unique<RunLog>(path(), [] { return Seconds{1}; });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) log->write(full_step());
      });
    }
  }
  EXPECT_EQ(lines().size(), 800U);
  for (const std::string& line : lines()) EXPECT_TRUE(json::accept(line));
}

// A process that is killed at any moment leaves whole lines, but for the last: Linux copies a write
// page by page, and ends it between two pages for whoever is to die.
TEST_F(RunLogTest, WhoIsKilledLeavesWholeLines) {
  const pid_t writer = fork();
  if (writer == 0) {
    RunLog log(path(), [] { return Seconds{1}; });
    log.write(header());
    while (true) log.write(full_step());
  }
  while (!std::filesystem::exists(path()) || std::filesystem::file_size(path()) < 100'000)
    std::this_thread::yield();
  kill(writer, SIGKILL);
  int status = 0;
  waitpid(writer, &status, 0);
  std::ifstream in(path(), std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::string> left = lines();
  ASSERT_GT(left.size(), 2U);
  if (all.back() != '\n') {
    EXPECT_EQ(all.size() % 4096, 0U) << "cut elsewhere than between two pages";
    left.pop_back();
  }
  for (const std::string& line : left) EXPECT_TRUE(json::accept(line));
}

}  // namespace
}  // namespace pliant::runlog
