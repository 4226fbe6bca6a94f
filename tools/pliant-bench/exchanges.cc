// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/exchanges.h"

#include <algorithm>
#include <memory>

#include "pliant/model/exchange.h"
#include "pliant/plan/density.h"
#include "tools/pliant-bench/agree.h"
#include "tools/pliant-bench/choose.h"
#include "tools/pliant-bench/hollow.h"
#include "tools/pliant-bench/predict.h"
#include "tools/pliant-bench/problem.h"
#include "tools/pliant-bench/trial.h"

namespace pliant::bench {
namespace {

// One plan's trial, and what its exchanges reported.
struct Entrant {
  plan::Plan plan;
  std::unique_ptr<Trial> trial;
  std::vector<exchange::Report> reports = {};
  std::vector<Seconds> times = {};  // of this rank
};

struct Contest {
  comm::Communicator& communicator;
  const Options& options;
  std::size_t count;
  comm::Region memory = {};  // of the yardstick, and of hollow messages
  Buffer<float> gradient = {};
  std::vector<std::shared_ptr<Entrant>> entrants = {};

  [[nodiscard]] std::span<float> floats() const {
    return {reinterpret_cast<float*>(memory.bytes.data()), count};
  }
};

bool hollow(const comm::Communicator& communicator, const Options& options) {
  return communicator.capabilities().simulated && options.checks == 0;
}

// Our dense all-reduce, which the others are held against, comes last.
std::vector<plan::Plan> plans_of(comm::Communicator& communicator, const Options& options,
                                 std::size_t count) {
  std::vector<plan::Plan> plans = plans_for(communicator, options, count);
  if (!options.reference) return plans;
  const plan::Plan dense{.reduce = plan::AllReduce::kHalvingDoubling};
  std::erase(plans, dense);
  plans.push_back(dense);
  return plans;
}

void enter_hollow(Contest& contest, const std::vector<plan::Plan>& plans) {
  const int rank = contest.communicator.rank();
  const auto options_of = [&](const plan::Plan& plan) {
    return TrialOptions{plan, contest.count, contest.options.deadline};
  };
  std::size_t largest = contest.options.reference ? contest.count * sizeof(float) : 0;
  for (const auto& plan : plans)
    largest = std::max(largest, hollow_bytes(options_of(plan), rank, contest.communicator.size()));
  contest.memory = hollow_memory(largest);
  for (const auto& plan : plans) {
    contest.entrants.push_back(std::make_shared<Entrant>(
        Entrant{plan, hollow_trial(contest.communicator, options_of(plan), contest.memory)}));
  }
}

void enter_real(Contest& contest, const std::vector<plan::Plan>& plans) {
  contest.gradient = Buffer<float>(contest.count);
  draw_gradient(contest.communicator.rank(), contest.gradient.span());
  if (contest.options.reference) contest.memory = comm::region_of(Buffer<float>(contest.count));
  for (const auto& plan : plans) {
    const TrialOptions options{plan, contest.count, contest.options.deadline};
    contest.entrants.push_back(std::make_shared<Entrant>(
        Entrant{plan, real_trial(contest.communicator, options, contest.gradient.span())}));
  }
}

Contender contender_of(comm::Communicator& communicator, const std::shared_ptr<Entrant>& entrant) {
  Contender contender{.name = to_string(entrant->plan)};
  contender.run = [entrant, &communicator] {
    const Seconds start = communicator.now();
    entrant->reports.push_back(entrant->trial->run());
    entrant->times.push_back(communicator.now() - start);
  };
  contender.check = [entrant] { return entrant->trial->check(); };
  return contender;
}

Contender contender_of(const Contest& contest, const Yardstick& yardstick) {
  Contender contender{.name = yardstick.name, .reference = true};
  const Problem problem =
      make_problem(schedule::Collective::kAllReduce, contest.communicator.size(), 0,
                   contest.count * sizeof(float));
  const int rank = contest.communicator.rank();
  contender.run = [yardstick, problem, rank, data = contest.floats()] {
    yardstick.run(problem, rank, data);
  };
  if (!yardstick.solves) return contender;
  contender.check = [run = contender.run, problem, rank, data = contest.floats()] {
    fill(problem, rank, data);
    run();
    return count_wrong(problem, rank, data);
  };
  return contender;
}

// The last reports, those of the timed iterations, on average.
ExchangeRow row_of(const Entrant& entrant, const Contest& contest, const Timing& timing) {
  ExchangeRow row{.count = contest.count, .plan = entrant.plan, .timing = timing};
  const auto timed =
      std::span(entrant.reports).last(static_cast<std::size_t>(contest.options.iterations));
  for (const auto& report : timed) {
    row.select += report.select;
    row.encode += report.encode;
    row.wire += report.wire;
    row.decode += report.decode;
  }
  for (const Seconds time : std::span(entrant.times).last(timed.size())) row.own += time;
  for (Seconds* sum : {&row.own, &row.select, &row.encode, &row.wire, &row.decode})
    sum->value /= static_cast<double>(timed.size());
  const auto& last = timed.back();
  row.kept = last.kept;
  row.updated_fraction = last.updated_fraction;
  const auto most = [&](double here) {
    return max_over_ranks(contest.communicator, here, contest.options.deadline);
  };
  row.wire_bytes = most(static_cast<double>(last.traffic.sent.value));
  row.messages = static_cast<int>(most(last.traffic.messages));
  if (contest.options.link && contest.communicator.rank() == 0) {
    const auto world = plan::uniform_world(contest.communicator.size(), *contest.options.link);
    const std::size_t kept = plan::entries_of(entrant.plan.density, contest.count);
    row.price =
        model::price_exchange(entrant.plan, contest.count, kept, world, std::max(last.leader, 0));
  }
  return row;
}

void run_contest(Contest& contest, const Backend& backend, std::vector<ExchangeRow>& rows) {
  std::vector<Contender> contenders;
  for (const auto& entrant : contest.entrants)
    contenders.push_back(contender_of(contest.communicator, entrant));
  if (contest.options.reference) contenders.push_back(contender_of(contest, backend.yardstick()));
  if (contenders.empty()) return;
  const auto timings = measure(contest.communicator, contenders, contest.options);

  const std::size_t first = rows.size();
  for (std::size_t i = 0; i < contest.entrants.size(); ++i)
    rows.push_back(row_of(*contest.entrants[i], contest, timings[i]));
  if (!contest.options.reference) return;
  const Seconds dense = rows.back().timing.median;
  rows.push_back({.count = contest.count, .timing = timings.back()});
  for (ExchangeRow& row : std::span(rows).subspan(first)) {
    row.dense = dense;
    row.reference = timings.back().median;
  }
}

}  // namespace

bool ExchangeReport::wrong() const {
  return std::ranges::any_of(
      rows, [](const ExchangeRow& row) { return row.timing.wrong.value_or(0) > 0; });
}

ExchangeReport run_exchanges(comm::Communicator& communicator, const Backend& backend,
                             const Options& options, std::span<const std::size_t> counts) {
  const bool without_content = hollow(communicator, options);
  ExchangeReport report{
      communicator.size(), backend.name, options.reference ? backend.yardstick().name : "",
      without_content,     options,      {}};
  for (const std::size_t count : counts) {
    Contest contest{communicator, options, count};
    const auto plans = plans_of(communicator, options, count);
    without_content ? enter_hollow(contest, plans) : enter_real(contest, plans);
    run_contest(contest, backend, report.rows);
  }
  return report;
}

}  // namespace pliant::bench
