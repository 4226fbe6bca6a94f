// SPDX-License-Identifier: MIT
#include "pliant/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "pliant/common/errors.h"
#include "pliant/control/decide.h"

namespace pliant::planner {
namespace {

using agree::Record;

// Rounds between two fronts of decisions that changed nothing. A front takes about 300 us, and on a
// restless network nearly every round evaluates: this keeps the run log's share of a 10 ms step
// below 0.5 %.
constexpr std::uint64_t kFrontPeriod = 20;

double least(std::span<const Record> records, auto&& of) {
  double value = std::numeric_limits<double>::infinity();
  for (const Record& record : records) value = std::min(value, static_cast<double>(of(record)));
  return value;
}

double most(std::span<const Record> records, auto&& of) {
  double value = -std::numeric_limits<double>::infinity();
  for (const Record& record : records) value = std::max(value, static_cast<double>(of(record)));
  return value;
}

bool is_pinned(const Setup& setup) {
  return control::is_complete(setup.pins) || setup.control.policy == control::Policy::kFixed ||
         setup.ranks == 1;
}

// Dense float32 values are not coded.
bool is_coded(const plan::Plan& plan) {
  return plan.scheme != plan::Scheme::kDense || plan.values != plan::ValueCode::kF32;
}

}  // namespace

Planner::Planner(Setup setup, const std::vector<std::size_t>& units)
    : setup_(std::move(setup)), state_(setup_.ranks, setup_.costs) {
  setup_.control.candidates.pins = setup_.pins;
  setup_.efficiency.at_end = control::least_worth(setup_.control) > 0;
  if (is_pinned(setup_)) pinned_.emplace(setup_.pins, setup_.warm_up, setup_.warm_up_steps);
  set_units(units);
  say_if_worth_little();
}

// -- what is chosen --

Choice Planner::choose(std::uint64_t round) {
  if (history_.is_last(round)) return *last_;
  if (history_.begin(round) == PlanHistory::Begun::kAgain) front_due_ = round;
  state_.steps += history_.steps_of_last();
  if (pinned_) {
    auto [plan, reason, cause] = pinned_->at(round);
    last_ = Choice{.plan = plan, .reason = std::move(reason), .origin = {.cause = cause}};
  } else {
    last_ = decide(round);
  }
  history_.add({round, state_.steps, last_->plan});
  return *last_;
}

Choice Planner::decide(std::uint64_t round) {
  const bool front_due = setup_.front && round >= front_due_;
  control::Inputs now{.step = state_.steps,
                      .model = inputs(),
                      .changed = std::exchange(network_changed_, false),
                      .noise = state_.network.spread(),
                      .seen = seen(),
                      .front = front_due};
  for (std::size_t c = 0; c < now.last_seen.size(); ++c)
    now.last_seen[c] = state_.network.last_seen(c).value_or(-1);
  const auto decision = std::make_shared<const control::Decision>(
      control::decide(now, setup_.control, state_.control, book_));
  if (front_due && decision->evaluated) front_due_ = round + kFrontPeriod;
  return {.plan = decision->choice,
          .reason = decision->reason,
          .predicted = decision->chosen ? decision->chosen->exchange : Seconds{},
          .origin = decision->origin,
          .decision = decision};
}

std::optional<control::SeenSteps> Planner::seen() const {
  const observe::StepTimes& times = state_.step_times;
  if (times.rounds() == 0) return std::nullopt;
  return control::SeenSteps{times.plan(), times.of_a_step(), times.rounds()};
}

model::Inputs Planner::inputs() const {
  const Seconds compute = state_.compute.of_a_step();
  return {.world = network_ ? plan::uniform_world(setup_.ranks, *network_) : state_.network.world(),
          .buckets = state_.readiness.buckets(compute),
          .buffers = buffers_idle_ ? 0 : setup_.buffers,
          .compute = compute,
          .compute_uncertainty = state_.compute.uncertainty(),
          .costs = state_.costs,
          .coding = state_.coding.factor(),
          .coding_uncertainty = state_.coding.level().uncertainty(),
          .adam = setup_.adam,
          .efficiency = setup_.efficiency,
          .least_worth = control::least_worth(setup_.control),
          .lanes = setup_.lanes,
          .drift = setup_.drift,
          .drag = setup_.drag,
          .corrections = network_ ? plan::Corrections{} : state_.network.corrections(),
          .overlap = state_.overlap.value(),
          .gain = state_.gain.curve()};
}

std::optional<plan::Link> Planner::link() const {
  return state_.network.batches() == 0 ? std::nullopt : std::optional(state_.network.link());
}

double Planner::worth(const plan::Plan& plan) const {
  if (setup_.ranks == 1) return 1;
  // A pinned plan has no state to save, so that its worth must not depend on what was measured.
  const auto overlap = pinned_ ? std::nullopt : state_.overlap.value();
  model::EfficiencyOptions options = setup_.efficiency;
  options.at_end = true;
  return model::efficiency(plan, model::updated_fraction(plan, setup_.ranks, overlap), setup_.adam,
                           options);
}

Outlook Planner::outlook(const plan::Plan& plan) {
  Outlook outlook{.link = link()};
  if (!outlook.link) return {};
  const model::Inputs now = inputs();
  plan::Plan plainest;
  if (!setup_.control.candidates.backend_all_reduce)
    plainest.reduce = plan::AllReduce::kHalvingDoubling;
  try {
    outlook.wire = model::predict(plan, now, book_).wire;
    if (state_.compute.known()) outlook.dense_step = model::predict(plainest, now, book_).step;
  } catch (const ContractError&) {  // the measurements make no sense: nothing is expected
  }
  return outlook;
}

// -- what is observed --

void Planner::take_in(std::span<const Record> records) {
  const auto taken = history_.take(records.front().step);
  if (!taken) return;  // sent before a restored state
  if (const auto what = nonsense(records)) {
    warn(fmt::format("step {}: {}; the timings of this step were ignored", taken->round.step,
                     *what));
    return;
  }
  if (setup_.ranks > 1) observe_network(records, taken->round);
  if (taken->previous) observe_compute(records, *taken->previous);
  if (setup_.ranks > 1 && is_coded(taken->round.plan)) observe_coding(records, taken->round.plan);
}

void Planner::observe_network(std::span<const Record> records, const PlanHistory::Round& round) {
  model::Inputs then = inputs();
  const bool with_buffers = least(records, [](const Record& r) { return r.wire[1]; }) > 0;
  then.buffers = with_buffers ? setup_.buffers : 0;
  const auto [weight, correction] = model::weigh_step(round.plan, then, book_);
  observe::Batch batch{.exchange = {.step = round.step,
                                    .messages = weight.messages,
                                    .bytes = weight.bytes,
                                    .duration = {on_the_wire(records)},
                                    .correction = correction}};
  const double control = least(records, [](const Record& r) { return r.control; });
  if (control > 0) {
    const model::Weight gathered =
        model::PriceBook::weigh_control(sizeof(Record), static_cast<int>(records.size()));
    batch.control = {.step = round.step,
                     .messages = gathered.messages,
                     .bytes = gathered.bytes,
                     .duration = {control}};
  }
  const auto taken = state_.network.take(batch);
  network_changed_ = network_changed_ || taken.changed;
  if (taken.ignored) warn(*taken.ignored);
}

// A record says how long the round before its own took. All ranks wait for the slowest one.
void Planner::observe_compute(std::span<const Record> records, const PlanHistory::Round& round) {
  if (least(records, [](const Record& r) { return r.whole; }) <= 0) return;
  const bool updates = round.plan.kind == plan::Kind::kUpdates;
  state_.step_times.take(round.plan, most(records, [](const Record& r) { return r.whole; }),
                         updates ? round.plan.every : 1);
  const double compute = most(records, [updates](const Record& r) {
    return r.whole - r.exposed - (updates ? r.coding : 0);  // gradients are coded by lanes
  });
  state_.compute.take(compute, updates ? round.plan.every : 1);
  if (updates) return;
  state_.readiness.take(agree::reported_unit(round.number, state_.readiness.units()),
                        most(records, [](const Record& r) { return r.lead; }));
}

void Planner::observe_coding(std::span<const Record> records, const plan::Plan& plan) {
  state_.coding.take(most(records, [](const Record& r) { return r.coding; }),
                     model::coding_of(plan, inputs()));
}

void Planner::set_units(const std::vector<std::size_t>& lengths) {
  state_.readiness.set_units(lengths);
}

void Planner::note_ran(std::uint64_t round, const plan::Plan& plan) {
  history_.note_ran(round, plan);
}

void Planner::note_result(const plan::Plan& plan, const Result& result) {
  if (plan.scheme == plan::Scheme::kDense || setup_.ranks == 1) return;
  state_.gain.take(result.gain, plan.density);
  if (plan.scheme == plan::Scheme::kUnion)
    state_.overlap.take(result.updated_fraction, plan.density, setup_.ranks);
}

void Planner::set_network(const std::optional<plan::Link>& link) {
  network_ = link;
  network_changed_ = true;
}

// A pinned plan does not depend on timings, so nobody needs to know that one was ignored.
void Planner::warn(const std::string& what) const {
  if (setup_.log && !pinned_) setup_.log(Severity::kWarning, what);
}

// Goal steps promises the same model after the same steps. Pins are used all the same. Whoever pins
// a whole plan has left nothing to the goal, so it is no warning then.
void Planner::say_if_worth_little() const {
  const double least_worth = control::least_worth(setup_.control);
  if (!setup_.log || setup_.ranks == 1 || least_worth <= 0) return;
  const auto say = [&](Severity severity, double best, std::string_view advice) {
    if (best >= least_worth) return;
    setup_.log(
        severity,
        fmt::format("under '{}' a step is worth {:.2f} steps of plain DDP{} (assumed): for "
                    "as good a model train {:.2f}x as many{}",
                    to_string(setup_.pins), best, pinned_ ? "" : " at most", 1 / best, advice));
  };
  if (pinned_) return say(Severity::kInfo, worth(pinned_->plan()), "");
  double best = 0;
  for (const plan::Plan& each : plan::candidates(setup_.ranks, setup_.control.candidates)) {
    best = std::max(best, worth(each));
    if (best >= least_worth) return;
  }
  say(Severity::kWarning, best,
      ". Goal steps promises the same steps, and no plan that fits these pins keeps that: pin less "
      "of it, or choose goal time");
}

// -- for a checkpoint --

std::string Planner::to_text() const { return pinned_ ? "" : planner::to_text(state_); }

void Planner::restore(std::string_view text) {
  if (pinned_ || text.empty()) return;
  planner::restore(state_, text);
  history_.clear();
  last_.reset();
}

}  // namespace pliant::planner
