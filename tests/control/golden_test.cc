// SPDX-License-Identifier: MIT
// Replays recorded observations and compares the decisions, as text.
// tests/golden/decisions/NAME.observations has a line of settings, then a line per exchange:
//
//   ranks 8 elements 10000000 compute 0.1 plan auto
//   step messages bytes seconds correction control_messages control_bytes control_seconds
//
// NAME.decisions has the results: ignored timings, and every decision that evaluated something.
// After a change that is meant, run with PLIANT_GOLDEN_WRITE=1 and read the difference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/control/loop.h"

namespace pliant::test {
namespace {

const std::filesystem::path kFolder = PLIANT_GOLDEN;

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// A run of the synthetic network, recorded. The replay does not know how it came about.
std::string recorded(const char* from, const char* to, unsigned seed) {
  model::PriceBook book;
  Loop loop(book, 8, plan::parse_link(from), 10'000'000, {0.1}, seed);
  for (int i = 0; i < 240; ++i) {
    if (i == 160) loop.network.link = plan::parse_link(to);
    (void)loop.step();
  }
  std::string text = "ranks 8 elements 10000000 compute 0.1 plan auto\n";
  for (const observe::Batch& b : loop.taken) {
    text += fmt::format("{} {} {} {} {} {} {} {}\n", b.exchange.step, b.exchange.messages,
                        b.exchange.bytes, b.exchange.duration.value, b.exchange.correction,
                        b.control->messages, b.control->bytes, b.control->duration.value);
  }
  return text;
}

std::string replayed(const std::string& text) {
  std::istringstream in(text);
  std::string word;
  int ranks = 0;
  double elements = 0;
  double compute = 0;
  std::string pins;
  in >> word >> ranks >> word >> elements >> word >> compute >> word;
  std::getline(in >> std::ws, pins);
  observe::Network network(ranks);
  control::Inputs inputs;
  inputs.model = {.world = network.world(),
                  .buckets = {{static_cast<std::size_t>(elements), {compute}}},
                  .compute = {compute}};
  const control::Options options{.candidates = {.pins = plan::parse_pins(pins)}};
  control::State state;
  model::PriceBook book;
  std::string out = to_string(control::decide(inputs, options, state, book), true);
  observe::Batch batch;
  batch.control.emplace();
  std::string seconds, control_seconds;  // "nan" too
  while (in >> batch.exchange.step >> batch.exchange.messages >> batch.exchange.bytes >> seconds >>
         batch.exchange.correction >> batch.control->messages >> batch.control->bytes >>
         control_seconds) {
    batch.exchange.duration = {std::strtod(seconds.c_str(), nullptr)};
    batch.control->duration = {std::strtod(control_seconds.c_str(), nullptr)};
    batch.control->step = batch.exchange.step;
    const auto taken = network.take(batch);
    if (taken.ignored) {
      out += "ignored: " + *taken.ignored + "\n";
      continue;
    }
    inputs.step = batch.exchange.step + 3;
    inputs.changed = taken.changed;
    inputs.model.world = network.world();
    inputs.model.corrections = network.corrections();
    const auto decision = control::decide(inputs, options, state, book);
    if (decision.evaluated) out += to_string(decision, decision.changed);
  }
  return out;
}

TEST(Golden, RecordedObservationsLeadToTheSameDecisions) {
  const bool write = std::getenv("PLIANT_GOLDEN_WRITE") != nullptr;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".observations") continue;
    auto expected = entry.path();
    expected.replace_extension(".decisions");
    const std::string got = replayed(slurp(entry.path()));
    if (write) std::ofstream(expected) << got;
    EXPECT_EQ(got, slurp(expected)) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 3);
}

// Once: PLIANT_GOLDEN_RECORD=1. Decisions may change, what was observed does not.
TEST(Golden, Record) {
  if (std::getenv("PLIANT_GOLDEN_RECORD") == nullptr) GTEST_SKIP() << "only on demand";
  std::ofstream(kFolder / "slower.observations") << recorded("1gbit,1ms", "10mbit,20ms", 1);
  std::ofstream(kFolder / "faster.observations") << recorded("20mbit,20ms", "2gbit,200us", 2);
  std::ofstream(kFolder / "steady.observations") << recorded("200mbit,5ms", "200mbit,5ms", 3);
}

}  // namespace
}  // namespace pliant::test
