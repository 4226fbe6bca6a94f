// SPDX-License-Identifier: MIT
// How much is lost by not knowing the network, executed in simulated time. For each case (a model's
// size and the compute time of a step) on the network that SMPI plays: run the plans that the
// model, given the true network, has within 2x of the best, and 20 random ones; then let `auto`
// find its own by measuring; then run what it ended with. Simulated time has no noise, so a plan
// that ran once takes the same time ever after.
//
//   control-simulated LINK SEED LENGTH:COMPUTE_US ...     prints one JSON document
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "bench/control/simulated_ranks.h"
#include "pliant/comm/mpi/session.h"
#include "pliant/control/front.h"
#include "pliant/planner/planner.h"

namespace pliant::bench {
namespace {

using model::Prediction;
using nlohmann::json;

constexpr double kNearTheBest = 2;
constexpr std::size_t kRandom = 20;
// Warm-up 100, then four rungs of 50; and as much again to settle.
constexpr std::int64_t kSteps = 800;
// Records of a step are taken in two steps later, whatever the kind (late = 0).
constexpr std::size_t kRecordAge = 2;
// Rounds before what `auto` sees, so that ranks are as far apart as in training.
constexpr int kRounds = 3;

struct Case {
  std::size_t length;
  Seconds compute;
};

// What determines an exchange, whatever the kind and the rhythm: updates of every=4 send what
// gradients do.
std::string exchange_of(plan::Plan plan) {
  plan.kind = plan::Kind::kGradients;
  plan.every = 1;
  plan.fuse = plan::Fusion::kAll;
  return to_string(plan);
}

class Trial {
 public:
  Trial(SimulatedRanks& ranks, model::PriceBook& book, const plan::Link& truth, const Case& one,
        unsigned seed)
      : ranks_(ranks), book_(book), truth_(truth), case_(one), random_(seed) {}

  json run() {
    execute_candidates();
    const auto [plan, predicted] = let_auto_find();
    const double own = judged(plan);
    const auto best =
        std::ranges::min_element(judged_, {}, [](const auto& each) { return each.second; });
    json out{{"length", case_.length},
             {"compute", case_.compute.value},
             {"executed", judged_.size()},
             {"exchanges", exchanges_.size()}};
    out["best"] = {{"plan", best->first}, {"cost", best->second}};
    out["auto"] = {{"plan", to_string(plan)}, {"cost", own}, {"switches", switches_}};
    out["regret"] = own / std::min(own, best->second);
    out["prediction_error"] = std::abs(predicted.exchange.value / exchange_seconds(plan) - 1);
    out["prediction_error_others"] = errors_of_others();
    out["estimate"] = {{"latency", known_.world.links.front().latency.value},
                       {"bits_per_second", 8 / known_.world.links.front().seconds_per_byte},
                       {"compute", known_.compute.value}};
    return out;
  }

 private:
  [[nodiscard]] model::Inputs truth_inputs() const {
    return {.world = plan::uniform_world(ranks_.size(), truth_),
            .buckets = {{case_.length, case_.compute}},
            .compute = case_.compute,
            .lanes = 0};
  }

  void execute_candidates() {
    const control::Options options;
    std::vector<plan::Plan> plans = plan::candidates(ranks_.size(), options.candidates);
    std::erase_if(plans, [&](const plan::Plan& plan) {
      const bool twin = plan.scheme == plan::Scheme::kShared &&
                        plan.leader == plan::Leader::kVar;  // the same messages as star
      return plan.late > 0 || twin || !control::allowed(plan, {}, options.guards, false);
    });
    const auto all = model::predict_all(plans, truth_inputs(), book_);
    const double least = control::fastest(control::all_of(all))->speed() / kNearTheBest;
    for (const Prediction& each : all) {
      if (each.speed() >= least) (void)judged(each.plan);
    }
    for (std::size_t i = 0; i < kRandom; ++i) (void)judged(all[random_() % all.size()].plan);
  }

  // Time per unit of progress, executed. Efficiency is the model's: nothing trains here.
  double judged(const plan::Plan& plan) {
    const double step = case_.compute.value + exchange_seconds(plan) / plan.every;
    const double efficiency = model::predict(plan, truth_inputs(), book_).efficiency;
    plans_.emplace(to_string(plan), plan);
    return judged_[to_string(plan)] = step / efficiency;
  }

  // From all ranks entering at once until the last is done.
  double exchange_seconds(const plan::Plan& plan) {
    const auto [found, fresh] = exchanges_.try_emplace(exchange_of(plan), 0);
    if (fresh) {
      plan::Plan once = plan;
      once.every = 1;
      for (const auto& record : ranks_.run({once, case_.length, case_.compute, 1})) {
        found->second = std::max(found->second, static_cast<double>(record.wire[0]));
      }
    }
    return found->second;
  }

  struct Found {
    plan::Plan plan;
    Prediction predicted;
  };
  Found let_auto_find() {
    planner::Planner planner({.ranks = ranks_.size(), .lanes = 0}, {case_.length});
    std::map<std::string, std::vector<agree::Record>> seen;
    std::deque<std::vector<agree::Record>> under_way;
    plan::Plan plan;
    std::uint64_t round = 0;
    for (std::int64_t step = 0; step < kSteps; step += plan.every, ++round) {
      if (under_way.size() == kRecordAge) {
        planner.take_in(under_way.front());
        under_way.pop_front();
      }
      const plan::Plan next = planner.choose(round).plan;
      switches_ += round > 0 && next != plan ? 1 : 0;
      plan = next;
      auto& records = seen[to_string(plan)];
      if (records.empty()) records = ranks_.run({plan, case_.length, case_.compute, kRounds});
      under_way.push_back(records);
      for (agree::Record& record : under_way.back()) record.step = round;
    }
    known_ = planner.inputs();
    return {plan, model::predict(plan, known_, book_)};
  }

  // What `auto` would have expected of all that was executed.
  json errors_of_others() {
    json errors = json::array();
    std::set<std::string> done;
    for (const auto& [text, plan] : plans_) {
      if (!done.insert(exchange_of(plan)).second) continue;
      errors.push_back(std::abs(
          model::predict(plan, known_, book_).exchange.value / exchange_seconds(plan) - 1));
    }
    return errors;
  }

  SimulatedRanks& ranks_;
  model::PriceBook& book_;
  plan::Link truth_;
  Case case_;
  std::mt19937 random_;
  std::map<std::string, double> exchanges_;  // seconds, by exchange_of
  std::map<std::string, double> judged_;     // by plan
  std::map<std::string, plan::Plan> plans_;
  int switches_ = 0;
  model::Inputs known_ = {};
};

Case parse_case(const std::string& text) {
  const std::size_t colon = text.find(':');
  return {std::stoull(text.substr(0, colon)), {std::stod(text.substr(colon + 1)) * 1e-6}};
}

int run(int argc, char** argv) {
  const comm::mpi::Session session(&argc, &argv);
  SimulatedRanks ranks(session.world(), session.world());
  if (ranks.rank() != 0) {
    ranks.serve();
    return 0;
  }
  const plan::Link truth = plan::parse_link(argv[1]);
  const auto seed = static_cast<unsigned>(std::stoul(argv[2]));
  model::PriceBook book;
  json cases = json::array();
  for (int i = 3; i < argc; ++i)
    cases.push_back(
        Trial(ranks, book, truth, parse_case(argv[i]), seed + static_cast<unsigned>(i)).run());
  const json document{{"ranks", ranks.size()},
                      {"link", argv[1]},
                      {"control_bytes", ranks.control_bytes()},
                      {"cases", cases}};
  ranks.dismiss();
  std::puts(document.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace pliant::bench

int main(int argc, char** argv) { return argc < 4 ? 2 : pliant::bench::run(argc, argv); }
