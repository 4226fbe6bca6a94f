// SPDX-License-Identifier: MIT
// What the run log costs a rank in a step, as JSON on stdout: {"line_us": [...], "step_us": [...],
// "decision_us": [...], "bytes": n}, each a list over repetitions of 1,000 steps; this thread's
// processor time, whichever thread would do it in training. line: the observer and the write alone.
// step: with all that is done for the log's sake under a fixed plan, measuring the link, predicting
// and sampling energies. decision_us: of one evaluation, its front found among all candidates and
// its line written (evaluating them takes longer).
//
// usage: observer_bench FILE   (is written, and removed)
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "pliant/common/processor_time.h"
#include "pliant/control/front.h"
#include "pliant/model/coefficients.h"
#include "pliant/plan/candidates.h"
#include "pliant/planner/planner.h"
#include "pliant/runlog/observer.h"

namespace {

using namespace pliant;
using namespace pliant::runlog;

constexpr int kRepetitions = 21;
constexpr int kSteps = 1000;
constexpr int kRanks = 8;
constexpr std::size_t kGroups = 4;
constexpr std::size_t kEntries = 2'500'000;  // of a group
constexpr double kWire = 4e-3;

double processor_us() { return 1e6 * processor_time().value; }

enum class Everything { kNo, kYes };

class Run {
 public:
  Run(const std::string& path, Everything everything)
      : everything_(everything),
        plan_(plan::parse_plan("gradients union density=1%", "plan")),
        planner_({.pins = plan::pins_of(plan_), .ranks = kRanks, .lanes = 2},
                 std::vector(kGroups, kEntries)),
        values_(kEntries, 0.5F) {
    observer_.start(std::make_unique<RunLog>(path, [this] { return Seconds{now_ += 1e-6}; }),
                    false);
  }

  void step() {
    const Seconds begin{now_};
    if (everything_ == Everything::kYes) {
      (void)planner_.choose(round_);
    }
    observer_.begin_step(begin, plan_, 1, 1);
    observer_.send_round(round_, plan_, 1, [this] {
      return everything_ == Everything::kYes ? planner_.outlook(plan_) : planner::Outlook{};
    });
    for (std::size_t g = 0; g < kGroups; ++g) {
      Energies energies;
      if (everything_ == Everything::kYes)
        energies = {observer_.sample(values_, kGroups * kEntries),
                    observer_.sample(values_, kGroups * kEntries)};
      exchange::Report report{.updated_fraction = 0.07, .gain = 0.3, .energy = 1};
      const LogExchange span{.group = g,
                             .lane = g % 2,
                             .begin = begin,
                             .enter = {now_},
                             .leave = {now_},
                             .end = {now_},
                             .bytes = {123'456},
                             .entries = kEntries};
      observer_.exchanged(round_, {.span = span, .report = report, .energies = energies});
    }
    observer_.landed(round_, {1e-3});
    std::vector<agree::Record> records(kRanks);
    for (agree::Record& record : records) {
      record.step = round_;
      record.whole = 1e-2F;
      record.lead = 4e-3F;
      record.exposed = 1e-3F;
      record.control = 1e-3F;
      record.wire.fill(static_cast<float>(kWire / agree::kRecordTimes *
                                          (1 + 0.01 * static_cast<double>(round_ % 7))));
    }
    observer_.recorded(round_, {records, {192}});
    if (everything_ == Everything::kYes) planner_.take_in(records);
    ++round_;
    now_ += 1e-2;
  }

 private:
  const Everything everything_;
  double now_ = 0;
  Observer observer_;
  const plan::Plan plan_;
  planner::Planner planner_;
  const std::vector<float> values_;
  std::uint64_t round_ = 0;
};

std::vector<double> measure(const std::string& path, Everything everything) {
  Run run(path, everything);
  for (int step = 0; step < 100; ++step) run.step();
  std::vector<double> times;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const double begin = processor_us();
    for (int step = 0; step < kSteps; ++step) run.step();
    times.push_back((processor_us() - begin) / kSteps);
  }
  return times;
}

std::vector<double> measure_decisions(const std::string& path) {
  RunLog log(path, [] { return Seconds{}; });
  model::PriceBook book;
  const model::Inputs inputs{.world = plan::uniform_world(kRanks, plan::parse_link("100mbit,5ms")),
                             .buckets = std::vector(kGroups, model::Bucket{.length = kEntries}),
                             .compute = {1e-2},
                             .lanes = 2};
  const auto all = model::predict_all(plan::candidates(kRanks, {.updates = true}), inputs, book);
  std::vector<double> times;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const double begin = processor_us();
    const control::Decision decision{.inputs = "inputs",
                                     .candidates = static_cast<int>(all.size()),
                                     .front = control::front(all),
                                     .chosen = all.front()};
    log.write(LogDecision{.plan = all.front().plan, .reason = "a reason", .details = &decision});
    times.push_back(processor_us() - begin);
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: observer_bench FILE\n");
    return 2;
  }
  const std::string path = argv[1];
  const auto lines = measure(path, Everything::kNo);
  const auto bytes = std::filesystem::file_size(path) / (100 + kRepetitions * kSteps);
  const auto steps = measure(path, Everything::kYes);
  const auto decisions = measure_decisions(path);
  std::filesystem::remove(path);
  fmt::print(
      "{{\"line_us\": [{:.4g}], \"step_us\": [{:.4g}], \"decision_us\": [{:.4g}], \"bytes\": "
      "{}}}\n",
      fmt::join(lines, ", "), fmt::join(steps, ", "), fmt::join(decisions, ", "), bytes);
  return 0;
}
