// SPDX-License-Identifier: MIT
#include "pliant/engine/rounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "pliant/common/errors.h"
#include "pliant/control/change.h"

namespace pliant::engine {
namespace {

constexpr std::size_t kDecisionsKept = 8;

// The way from one kind to the other: everything unsent is sent, so that nothing of the old kind is
// left in the residual.
plan::Plan flush_of(plan::Kind kind, const std::optional<plan::Plan>& in_force) {
  if (kind == plan::Kind::kGradients) return {};
  const int every = in_force && in_force->kind == kind ? in_force->every : 1;
  return {.kind = kind, .every = every, .late = 0, .scheme = plan::Scheme::kDense};
}

// The number of rounds that are sent before the records of one are here for certain, on a rank that
// trains as on one that settles.
std::uint64_t lag_of(const std::optional<plan::Plan>& plan) {
  if (!plan || plan->kind == plan::Kind::kGradients) return 1;
  return static_cast<std::uint64_t>(std::max(1, (plan->late + plan->every - 1) / plan->every));
}

}  // namespace

Round Rounds::open(plan::Kind kind) {
  const planner::Choice choice = choose();
  const std::uint64_t lag = lag_of(plan_);
  Round round{.number = number_, .changes_kind = choice.plan.kind != kind};
  round.plan = round.changes_kind ? flush_of(kind, plan_) : choice.plan;
  round.lands_sooner = plan_ && round.plan.late < plan_->late;
  if (options_.deadline) round.deadline = *options_.deadline + 4 * choice.predicted;
  if (number_ > lag) round.compared = number_ - 1 - lag;
  adopt(round.plan, choice, kind);
  round.plan_version = version_;
  return round;
}

// From the records of all rounds but the last `lag`: the same ones on every rank, wherever it is
// with its landings. By then they have crossed the network beside other exchanges, so that nobody
// waits for them.
planner::Choice Rounds::choose() {
  const std::uint64_t lag = lag_of(plan_);
  if (number_ > lag) take_in(number_ - lag);
  return planner_->choose(number_);
}

void Rounds::take_in(std::uint64_t until) {
  for (; taken_ < until; ++taken_) {
    const auto gathered = services_.records->take(taken_);
    services_.observer.recorded(taken_, gathered);
    const auto ran = plans_.find(taken_);
    try {
      const auto kind = ran != plans_.end() ? ran->second.kind : plan::Kind::kGradients;
      if (const auto warning = checks_.take(gathered.records, kind))
        services_.say(Severity::kWarning, *warning);
    } catch (const Disagreement&) {
      services_.failure.note(std::current_exception());
      services_.failure.check();
    }
    const auto result = results_.find(taken_);
    if (ran != plans_.end() && result != results_.end())
      planner_->note_result(ran->second, result->second);
    plans_.erase(plans_.begin(), plans_.upper_bound(taken_));
    results_.erase(results_.begin(), results_.upper_bound(taken_));
    planner_->set_buffers_idle(checks_.buffers_are_still());
    planner_->take_in(gathered.records);
    services_.warn_if_log_failed();
  }
}

void Rounds::adopt(const plan::Plan& plan, const planner::Choice& choice, plan::Kind kind) {
  planner_->note_ran(number_, plan);
  plans_[number_] = plan;
  worth_ = planner_->worth(plan);
  // A plan of gradients is put in force before its step begins, one of updates within a step.
  using From = runlog::Observer::From;
  announce(plan, choice, kind == plan::Kind::kGradients ? From::kNextStep : From::kThisStep);
  ahead_.reset();
  if (plan_ == plan) return;
  version_ = version_of(plan);
  plan_ = plan;
  told_.push_back({fmt::format("step {}: {}", news_.step, news_.brief),
                   fmt::format("step {}: {} ({})", news_.step, to_string(plan), choice.reason)});
  services_.say(Severity::kInfo, told_.back().brief);
  services_.say(Severity::kDebug, told_.back().full);
  if (told_.size() > kDecisionsKept) told_.pop_front();
}

void Rounds::announce(const plan::Plan& plan, const planner::Choice& choice,
                      runlog::Observer::From from) {
  if (news_.plan != plan) {
    const bool flush = plan.kind != choice.plan.kind;
    control::Change change{.before = news_.plan,
                           .link_before = news_.link,
                           .after = flush ? choice.plan : plan,
                           .origin = choice.origin,
                           .after_full_exchange = flush};
    if (news_.was_flush) change.origin.cause = control::Cause::kNewKind;
    // The first plan is chosen for a guess of the network, not for a measured one.
    const bool measured = choice.origin.link && choice.origin.cause != control::Cause::kFirst;
    news_ = {.plan = plan,
             .link = measured ? choice.origin.link : news_.link,
             .was_flush = flush,
             .round = number_,
             .step = services_.observer.step_of(from),
             .brief = sentence(change)};
  }
  services_.observer.decided(
      number_, version_of(plan), plan, choice, from,
      news_.round == number_ ? news_.brief : control::sentence({.before = plan, .after = plan}));
}

plan::Plan Rounds::choose_ahead() {
  const planner::Choice choice = choose();
  announce(choice.plan, choice, runlog::Observer::From::kNextStep);
  ahead_ = choice.plan;
  worth_ = planner_->worth(choice.plan);
  return choice.plan;
}

plan::Plan Rounds::plan() const { return plan_ ? *plan_ : planner_->choose(number_).plan; }

std::vector<std::string> Rounds::decisions() const {
  std::vector<std::string> out;
  for (const Told& told : told_) out.push_back(told.brief);
  return out;
}

std::vector<std::string> Rounds::reasons() const {
  std::vector<std::string> out;
  for (const Told& told : told_) out.push_back(told.full);
  return out;
}

std::vector<int> Rounds::not_settled() {
  std::vector<int> ranks;
  int rank = 0;
  for (const agree::Record& record : services_.records->look(number_ - 1)) {
    if ((record.flags & agree::kSettling) == 0) ranks.push_back(rank);
    ++rank;
  }
  return ranks;
}

void Rounds::write(State& state) const {
  state.step = number_;
  state.epoch = version_;
  state.plan = to_string(plan());
  state.policy = planner_->to_text();
  state.effective_steps = effective_steps_;
}

void Rounds::restore(const State& state) {
  checks_.restart();
  planner_->set_buffers_idle(false);
  plans_.clear();
  results_.clear();
  ahead_.reset();
  number_ = taken_ = state.step;
  version_ = state.epoch;
  effective_steps_ = state.effective_steps;
  if (!state.policy.empty()) planner_->restore(state.policy);
  if (!state.plan.empty()) plan_ = plan::parse_plan(state.plan, "the plan in the state");
  if (plan_) worth_ = planner_->worth(*plan_);
  news_ = {.plan = plan_};
}

void Rounds::report_the_rest() {
  for (std::uint64_t round = taken_; round < number_; ++round) {
    if (const auto gathered = services_.records->take_if_here(round))
      services_.observer.recorded(round, *gathered);
  }
  services_.observer.flush(services_.failure.get() == nullptr);
}

}  // namespace pliant::engine
