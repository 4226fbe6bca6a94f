// SPDX-License-Identifier: MIT
// Measuring and deciding in pure model terms, over random networks that are noisy and change, and
// what it costs a rank.
//
//   control-loop SEED NETWORKS     prints one JSON document
#include <cstdio>
#include <deque>
#include <nlohmann/json.hpp>

#include "pliant/common/processor_time.h"
#include "pliant/planner/planner.h"
#include "tests/control/measures.h"

namespace pliant::test {
namespace {

using nlohmann::json;

constexpr std::int64_t kSettled = 420;  // steps: warm-up, ramp, and some
constexpr double kNoise = 0.2;          // the spread of timings, of which 1 % are outliers too

struct Survey {
  unsigned seed;
  int networks;
  model::PriceBook book = {};

  [[nodiscard]] Loop loop(const Setting& setting, unsigned noise_seed, double spread = kNoise) {
    return {book,       setting.ranks, setting.link,         setting.length, setting.compute,
            noise_seed, spread,        spread > 0 ? 0.01 : 0};
  }

  json regrets(double spread) {
    json out = json::array();
    for (int i = 0; i < networks; ++i) {
      Loop one = loop(random_setting(seed + i), seed + i, spread);
      run(one, kSettled);
      if (one.state.trials.after_trial) run(one, 10);
      out.push_back(regret(one));
    }
    return out;
  }

  json replans(double (*until)(Loop&, const plan::Link&), double spread) {
    json out = json::array();
    for (int i = 0; i < networks; ++i) {
      Loop one = loop(random_setting(seed + 10'000 + i), seed + i, spread);
      run(one, 300);
      out.push_back(until(one, random_setting(seed + 20'000 + i).link));
    }
    return out;
  }

  json steadies() {
    json out = json::array();
    for (int i = 0; i < networks; ++i) {
      Loop one = loop(random_setting(seed + 30'000 + i), seed + i);
      run(one, kSettled);
      int switches = 0;
      int evaluations = 0;
      for (int step = 0; step < 1000; ++step) {
        const auto decision = one.step();
        switches += switched(decision) ? 1 : 0;
        evaluations += decision && decision->evaluated ? 1 : 0;
      }
      out.push_back({{"switches", switches}, {"evaluations", evaluations}});
    }
    return out;
  }
};

double processor_seconds() { return processor_time().value; }

// Cost of a rank's planner on average in a noisy run, evaluations included: records in, plan out.
// Seconds of this thread's processor.
struct Cost {
  double per_exchange = 0;
  double per_step = 0;  // of training: an exchange of updates serves `every` of them
};

Cost cost_of(int ranks, const plan::Link& link, std::size_t length, Seconds compute, unsigned seed,
             int rounds) {
  planner::Planner planner({.ranks = ranks, .lanes = 1},
                           {length / 4, length / 4, length / 4, length / 4});
  SyntheticNetwork network(link, seed);
  model::PriceBook book;
  std::deque<std::vector<agree::Record>> under_way;
  const model::Weight control = model::PriceBook::weigh_control(64, ranks);
  const int warm = 400;
  double spent = 0;
  double steps = 0;
  for (int round = 0; round < warm + rounds; ++round) {
    const double begin = processor_seconds();
    if (under_way.size() == 2) planner.take_in(under_way.front());
    const plan::Plan plan = planner.choose(static_cast<std::uint64_t>(round)).plan;
    if (round >= warm) {
      spent += processor_seconds() - begin;
      steps += plan.every;
    }
    if (under_way.size() == 2) under_way.pop_front();
    const auto inputs = planner.inputs();
    Seconds wire{};
    for (const model::Bucket& group : model::groups(plan, inputs)) {
      const std::size_t kept = plan.scheme == plan::Scheme::kDense
                                   ? group.length
                                   : plan::entries_of(plan.density, group.length);
      wire += book.weigh(plan, group.length, kept, ranks).over(link);
    }
    const double exchange = network.noisy(wire).value;
    const double gathered = network.took(control).value;
    std::vector<agree::Record> records(static_cast<std::size_t>(ranks));
    for (agree::Record& record : records) {
      const double computed = compute.value * (1 + 0.05 * (network.even() - 0.5)) * plan.every;
      const double late = 1 + 0.1 * network.even();  // who came early waited longer
      record.step = static_cast<std::uint64_t>(round);
      record.wire[0] = static_cast<float>(exchange * late);
      record.exposed = static_cast<float>(exchange);
      record.whole = static_cast<float>(computed + exchange);
      record.lead = static_cast<float>(0.6 * computed / plan.every);
      record.control = static_cast<float>(gathered * late);
    }
    planner.note_result(plan, {.updated_fraction = plan.density});
    under_way.push_back(std::move(records));
  }
  return {.per_exchange = spent / rounds, .per_step = spent / steps};
}

json costs(unsigned seed) {
  json out = json::array();
  for (const int ranks : {4, 8, 32, 64}) {
    for (const char* link : {"10gbit,50us", "1gbit,200us", "100mbit,1ms"}) {
      const Cost cost = cost_of(ranks, plan::parse_link(link), 10'000'000, {8e-3}, seed, 4000);
      out.push_back({{"ranks", ranks},
                     {"link", link},
                     {"per_exchange", cost.per_exchange},
                     {"per_step", cost.per_step}});
    }
  }
  return out;
}

int main_of(unsigned seed, int networks) {
  Survey survey{seed, networks};
  const json document{
      {"regret", survey.regrets(0)},
      {"regret_noisy", survey.regrets(kNoise)},
      {"replan_steps", survey.replans(steps_until_as_if_known, 0)},
      {"replan_steps_noisy", survey.replans(steps_until_as_if_known, kNoise)},
      {"replan_steps_near",
       survey.replans([](Loop& one, const plan::Link& to) { return replan_steps(one, to); },
                      kNoise)},
      {"steady", survey.steadies()},
      {"cost", costs(seed)}};
  std::puts(document.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace pliant::test

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): for bench/control.py only
  if (argc != 3) return 2;
  return pliant::test::main_of(static_cast<unsigned>(std::stoul(argv[1])), std::stoi(argv[2]));
}
