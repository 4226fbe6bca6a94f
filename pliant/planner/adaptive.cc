// SPDX-License-Identifier: MIT
#include "pliant/planner/adaptive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>

#include "pliant/common/errors.h"
#include "pliant/plan/density.h"

namespace pliant::planner {
namespace {

// Backward is about two thirds of a step's compute, if nothing is measured.
constexpr double kUsualSpread = 0.66;
// Before the first step has been timed: long enough that nothing looks urgent.
constexpr double kUsualCompute = 0.1;

constexpr double kLeastOverlap = 0.01;

// Beyond these something else than coding was timed.
constexpr double kLeastCoding = 0.5;
constexpr double kMostCoding = 4;

// Of two units that come together the first has no lead, but a level is above 0.
constexpr double kLeastLead = 1e-9;

// Rounds between two fronts of decisions that changed nothing. A front is some 300 us of work, and
// on a restless network nearly every round evaluates: this keeps the log's share of a 10 ms step
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

std::string leads_text(const std::vector<observe::Level>& leads) {
  std::vector<double> values;
  for (const observe::Level& lead : leads) values.push_back(lead.value());
  return fmt::format("{}", fmt::join(values, " "));
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

AdaptivePolicy::AdaptivePolicy(Setup setup, const std::vector<std::size_t>& units)
    : setup_(std::move(setup)), network_(setup_.ranks) {
  note_units(units);
}

void AdaptivePolicy::note_units(const std::vector<std::size_t>& lengths) {
  if (lengths == units_) return;
  units_ = lengths;
  leads_.assign(units_.empty() ? 0 : units_.size() - 1, {});
}

model::Inputs AdaptivePolicy::inputs() const {
  model::Inputs inputs{
      .world = network_.world(),
      .buffers = buffers_at_home_ ? 0 : setup_.buffers,
      .compute = {compute_.known() ? compute_.value() : kUsualCompute},
      .costs = setup_.costs,
      .coding = coding_.known() ? std::clamp(coding_.value(), kLeastCoding, kMostCoding) : 1,
      .adam = setup_.adam,
      .efficiency = setup_.efficiency,
      .lanes = setup_.lanes,
      .drift = setup_.drift,
      .drag = setup_.drag,
      .corrections = network_.corrections()};
  if (told_) {
    inputs.world = plan::uniform_world(setup_.ranks, *told_);
    inputs.corrections = {};
  }
  if (overlap_.known()) inputs.overlap = std::min(overlap_.value(), 1.0);
  if (gain_.known()) inputs.gain.points = {{gain_density_, std::min(gain_.value(), 1.0)}};
  add_buckets(inputs);
  return inputs;
}

// Each is ready as long before the last as was measured. Those whose turn has not come: by how much
// of the model came before them, from the first one's time on.
void AdaptivePolicy::add_buckets(model::Inputs& inputs) const {
  const double compute = inputs.compute.value;
  const double spread =
      !leads_.empty() && leads_.front().known() ? leads_.front().value() : kUsualSpread * compute;
  const auto total =
      static_cast<double>(std::accumulate(units_.begin(), units_.end(), std::size_t{0}));
  double before = 0;
  double ready = 0;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const auto length = static_cast<double>(units_[u]);
    const bool is_last = u + 1 == units_.size();
    const double share = is_last ? 1 : before / (total - static_cast<double>(units_.back()));
    const double lead = !is_last && leads_[u].known() ? leads_[u].value() : spread * (1 - share);
    ready = std::max(ready, compute - std::min(lead, compute));
    inputs.buckets.push_back({.length = units_[u], .ready = {ready}});
    before += length;
  }
}

Choice AdaptivePolicy::choose(std::uint64_t round) {
  if (!ran_.empty() && ran_.back().round == round) return *last_;
  if (!ran_.empty() &&
      ran_.back().round > round) {  // a state was restored: it goes on from an earlier round
    ran_.clear();
    front_due_ = round;
  }
  if (!ran_.empty())
    steps_ += ran_.back().plan.kind == plan::Kind::kUpdates ? ran_.back().plan.every : 1;
  const bool front_due = setup_.front && round >= front_due_;
  control::Inputs now{.step = steps_,
                      .model = inputs(),
                      .changed = std::exchange(changed_, false),
                      .front = front_due};
  for (std::size_t c = 0; c < now.last_seen.size(); ++c)
    now.last_seen[c] = network_.last_seen(c).value_or(-1);
  const auto decision = std::make_shared<const control::Decision>(
      control::decide(now, setup_.control, state_, book_));
  if (front_due && decision->evaluated) front_due_ = round + kFrontPeriod;
  last_ = Choice{.plan = decision->choice, .reason = decision->reason, .decision = decision};
  if (decision->chosen) last_->predicted = decision->chosen->exchange;
  ran_.push_back({round, steps_, decision->choice});
  return *last_;
}

void AdaptivePolicy::take_in(std::span<const Record> records) {
  const std::uint64_t round = records.front().step;
  std::optional<Ran> previous;
  while (!ran_.empty() && ran_.front().round < round) {
    previous = ran_.front();
    if (ran_.size() == 1) break;  // choose() looks at the last one
    ran_.pop_front();
  }
  if (ran_.empty() || ran_.front().round != round) return;  // of before a restart
  if (const auto what = nonsense(records)) {
    complain(fmt::format("step {}: {}; the step's timings were ignored", ran_.front().step, *what));
    return;
  }
  const plan::Plan& plan = ran_.front().plan;
  if (setup_.ranks > 1) {
    model::Inputs then = inputs();
    then.buffers = least(records, [](const Record& record) { return record.wire[1]; }) > 0
                       ? setup_.buffers
                       : 0;  // they come second
    const auto [weight, correction] = model::weigh_step(plan, then, book_);
    const std::int64_t step = ran_.front().step;
    observe::Batch batch{.exchange = {.step = step,
                                      .messages = weight.messages,
                                      .bytes = weight.bytes,
                                      .duration = {on_the_wire(records)},
                                      .correction = correction}};
    const double control = least(records, [](const Record& record) { return record.control; });
    if (control > 0) {
      const model::Weight gathered = model::PriceBook::weigh_control(sizeof(Record), setup_.ranks);
      batch.control = {.step = step,
                       .messages = gathered.messages,
                       .bytes = gathered.bytes,
                       .duration = {control}};
    }
    const auto taken = network_.take(batch);
    changed_ = changed_ || taken.changed;
    if (taken.complaint) complain(*taken.complaint);
  }
  if (previous) time(records, *previous);
  time_coding(records, plan);
}

void AdaptivePolicy::complain(const std::string& what) const {
  if (setup_.log) setup_.log(Severity::kWarning, what);
}

// A record tells how long the round before its own took. Everybody waits for the slowest rank.
void AdaptivePolicy::time(std::span<const Record> records, const Ran& previous) {
  const bool updates = previous.plan.kind == plan::Kind::kUpdates;
  if (least(records, [](const Record& record) { return record.whole; }) <= 0) return;
  const double compute = most(records, [updates](const Record& record) {
    return record.whole - record.exposed -
           (updates ? record.coding : 0);  // with gradients the lanes code
  });
  compute_.take(compute / (updates ? previous.plan.every : 1));
  if (updates || leads_.empty()) return;
  leads_[agree::reported_unit(previous.round, units_.size())].take(
      std::max(kLeastLead, most(records, [](const Record& record) { return record.lead; })));
}

// Plain floats are not coded: what little time they take says nothing about the rest.
void AdaptivePolicy::time_coding(std::span<const Record> records, const plan::Plan& plan) {
  if (setup_.ranks == 1 ||
      (plan.scheme == plan::Scheme::kDense && plan.values == plan::ValueCode::kF32))
    return;
  const double expected = model::coding_of(plan, inputs()).value;
  if (expected > 0)
    coding_.take(most(records, [](const Record& record) { return record.coding; }) / expected);
}

void AdaptivePolicy::note_ran(std::uint64_t round, const plan::Plan& plan) {
  if (!ran_.empty() && ran_.back().round == round) ran_.back().plan = plan;
}

void AdaptivePolicy::note_result(const plan::Plan& plan, const Result& result) {
  if (plan.scheme == plan::Scheme::kDense || setup_.ranks == 1) return;
  if (std::exchange(gain_density_, plan.density) != plan.density) gain_ = {};
  gain_.take(result.gain);
  // Selections that share no more than chance are a measurement too, and a level is above 0.
  if (plan.scheme == plan::Scheme::kUnion) {
    overlap_.take(std::max(model::overlap_of(result.updated_fraction, plan.density, setup_.ranks),
                           kLeastOverlap));
  }
}

Outlook AdaptivePolicy::outlook(const plan::Plan& plan) {
  if (network_.batches() == 0) return {};
  Outlook outlook{.link = network_.link()};
  const model::Inputs now = inputs();
  plan::Plan plainest;
  if (!setup_.control.candidates.backend_all_reduce)
    plainest.reduce = plan::AllReduce::kHalvingDoubling;
  try {
    outlook.wire = model::predict(plan, now, book_).wire;
    if (compute_.known()) outlook.dense_step = model::predict(plainest, now, book_).step;
  } catch (const ContractError&) {  // what was measured makes no sense: nothing is expected
  }
  return outlook;
}

void AdaptivePolicy::tell(const std::optional<plan::Link>& link) {
  told_ = link;
  changed_ = true;
}

std::string AdaptivePolicy::to_text() const {
  return fmt::format(
      "costs {}\nsteps {}\ncompute {}\ncoding {}\nleads {}\noverlap {}\ngain {}\ngain_density "
      "{}\nnetwork {}\ncontrol\n{}",
      one_line(plan::to_text(setup_.costs)), steps_, compute_.value(), coding_.value(),
      leads_text(leads_), overlap_.value(), gain_.value(), gain_density_, network_.to_text(),
      control::to_text(state_));
}

void AdaptivePolicy::restore(std::string_view text) {
  std::istringstream lines{std::string(text)};
  const auto value = [&](std::string_view key) {
    std::string line;
    std::getline(lines, line);
    if (!line.starts_with(key))
      throw InputError(fmt::format("the policy's state: '{}' where {} was expected", line, key));
    return line.substr(std::min(line.size(), key.size() + 1));
  };
  const auto number = [&](std::string_view key) {
    const std::string digits = value(key);
    try {
      return std::stod(digits);
    } catch (const std::exception&) {
      throw InputError(fmt::format("the policy's state: {} is '{}', not a number", key, digits));
    }
  };
  setup_.costs = plan::parse_cost_table(value("costs"));
  steps_ = static_cast<std::int64_t>(number("steps"));
  const auto level = [](double seconds) {
    observe::Level made;
    made.take(seconds);
    return made;
  };
  compute_ = level(number("compute"));
  coding_ = level(number("coding"));
  std::istringstream leads{value("leads")};
  leads_.assign(leads_.size(), {});
  double lead = 0;
  for (std::size_t u = 0; u < leads_.size() && leads >> lead; ++u) leads_[u] = level(lead);
  overlap_ = level(number("overlap"));
  gain_ = level(number("gain"));
  gain_density_ = number("gain_density");
  network_ = observe::parse_network(value("network"));
  (void)value("control");
  std::string rest((std::istreambuf_iterator<char>(lines)), {});
  state_ = control::parse_state(rest);
  ran_.clear();
  last_.reset();
}

}  // namespace pliant::planner
