// SPDX-License-Identifier: MIT
#include "pliant/engine/adaptive.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>

#include "pliant/common/errors.h"
#include "pliant/engine/agreement.h"
#include "pliant/plan/density.h"

namespace pliant::engine {
namespace {

// Backward is about two thirds of a step's compute, if nothing is measured.
constexpr double kUsualSpread = 0.66;
// Before the first step has been timed: long enough that nothing looks urgent.
constexpr double kUsualCompute = 0.1;

constexpr double kLeastOverlap = 0.01;

// Rounds between two fronts of decisions that changed nothing. A front is some 300 us of work, and on a restless network nearly every
// round evaluates: this keeps the log's share of a 10 ms step below 0.5 %.
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

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

AdaptivePolicy::AdaptivePolicy(Setup setup, std::vector<std::size_t> units)
    : setup_(std::move(setup)), units_(std::move(units)), network_(setup_.ranks) {}

model::Inputs AdaptivePolicy::inputs() const {
  model::Inputs inputs{.world = network_.world(),
                       .buffers = setup_.buffers,
                       .compute = {compute_.known() ? compute_.value() : kUsualCompute},
                       .costs = setup_.costs,
                       .adam = setup_.adam,
                       .efficiency = setup_.efficiency,
                       .lanes = setup_.lanes,
                       .drift = setup_.drift,
                       .corrections = network_.corrections()};
  if (told_) {
    inputs.world = plan::uniform_world(setup_.ranks, *told_);
    inputs.corrections = {};
  }
  if (overlap_.known()) inputs.overlap = std::min(overlap_.value(), 1.0);
  if (gain_.known()) inputs.gain.points = {{gain_density_, std::min(gain_.value(), 1.0)}};
  const double spread = std::min(spread_.known() ? spread_.value() : kUsualSpread * inputs.compute.value, inputs.compute.value);
  const auto total = static_cast<double>(std::accumulate(units_.begin(), units_.end(), std::size_t{0}));
  double before = 0;
  for (const std::size_t length : units_) {
    // The first unit is ready at the spread's begin, the last at its end, the others by how much of the model came before.
    const double share = total > static_cast<double>(units_.back()) ? before / (total - static_cast<double>(units_.back())) : 1;
    inputs.buckets.push_back({.length = length, .ready = {inputs.compute.value - spread * (1 - std::min(share, 1.0))}});
    before += static_cast<double>(length);
  }
  return inputs;
}

Choice AdaptivePolicy::choose(std::uint64_t round) {
  if (!ran_.empty() && ran_.back().round == round) return *last_;
  if (!ran_.empty() && ran_.back().round > round) {  // a state was restored: it goes on from an earlier round
    ran_.clear();
    front_due_ = round;
  }
  if (!ran_.empty()) steps_ += ran_.back().plan.kind == plan::Kind::kUpdates ? ran_.back().plan.every : 1;
  const bool front_due = setup_.front && round >= front_due_;
  control::Inputs now{.step = steps_, .model = inputs(), .changed = std::exchange(changed_, false), .front = front_due};
  for (std::size_t c = 0; c < now.last_seen.size(); ++c) now.last_seen[c] = network_.last_seen(c).value_or(-1);
  const auto decision = std::make_shared<const control::Decision>(control::decide(now, setup_.control, state_, book_));
  if (front_due && decision->evaluated) front_due_ = round + kFrontPeriod;
  last_ = Choice{.plan = decision->choice, .reason = decision->reason, .decision = decision};
  if (decision->chosen) last_->predicted = decision->chosen->exchange;
  ran_.push_back({round, steps_, decision->choice});
  return *last_;
}

void AdaptivePolicy::take_in(std::span<const Record> records) {
  const std::uint64_t round = records.front().step;
  std::optional<plan::Plan> previous;
  while (!ran_.empty() && ran_.front().round < round) {
    previous = ran_.front().plan;
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
    const auto [weight, correction] = model::weigh_step(plan, inputs(), book_);
    const std::int64_t step = ran_.front().step;
    observe::Batch batch{.exchange = {.step = step,
                                      .messages = weight.messages,
                                      .bytes = weight.bytes,
                                      .duration = {on_the_wire(records)},
                                      .correction = correction}};
    const double control = least(records, [](const Record& record) { return record.control; });
    if (control > 0) {
      const model::Weight gathered = model::PriceBook::weigh_control(sizeof(Record), setup_.ranks);
      batch.control = {.step = step, .messages = gathered.messages, .bytes = gathered.bytes, .duration = {control}};
    }
    const auto taken = network_.take(batch);
    changed_ = changed_ || taken.changed;
    if (taken.complaint) complain(*taken.complaint);
  }
  if (previous) time(records, *previous);
}

void AdaptivePolicy::complain(const std::string& what) const {
  if (setup_.log) setup_.log(Severity::kWarning, what);
}

// A record tells how long the round before its own took. Everybody waits for the slowest rank.
void AdaptivePolicy::time(std::span<const Record> records, const plan::Plan& previous) {
  const bool updates = previous.kind == plan::Kind::kUpdates;
  if (least(records, [](const Record& record) { return record.whole; }) <= 0) return;
  const double compute = most(records, [updates](const Record& record) {
    return record.whole - record.exposed - (updates ? record.coding : 0);  // with gradients the lanes code
  });
  compute_.take(compute / (updates ? previous.every : 1));
  if (!updates) spread_.take(most(records, [](const Record& record) { return record.spread; }));
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
    overlap_.take(std::max(model::overlap_of(result.updated_fraction, plan.density, setup_.ranks), kLeastOverlap));
  }
}

Outlook AdaptivePolicy::outlook(const plan::Plan& plan) {
  if (network_.batches() == 0) return {};
  Outlook outlook{.link = network_.link()};
  const model::Inputs now = inputs();
  plan::Plan plainest;
  if (!setup_.control.candidates.engine_all_reduce) plainest.reduce = plan::AllReduce::kHalvingDoubling;
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
  return fmt::format("costs {}\nsteps {}\ncompute {}\nspread {}\noverlap {}\ngain {}\ngain_density {}\nnetwork {}\ncontrol\n{}",
                     one_line(plan::to_text(setup_.costs)), steps_, compute_.value(), spread_.value(), overlap_.value(), gain_.value(),
                     gain_density_, network_.to_text(), control::to_text(state_));
}

void AdaptivePolicy::restore(std::string_view text) {
  std::istringstream lines{std::string(text)};
  const auto value = [&](std::string_view key) {
    std::string line;
    std::getline(lines, line);
    if (!line.starts_with(key)) throw InputError(fmt::format("the policy's state: '{}' where {} was expected", line, key));
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
  for (const auto& [key, level] : {std::pair{"compute", &compute_}, {"spread", &spread_}, {"overlap", &overlap_}, {"gain", &gain_}}) {
    *level = {};
    level->take(number(key));
  }
  gain_density_ = number("gain_density");
  network_ = observe::parse_network(value("network"));
  (void)value("control");
  std::string rest((std::istreambuf_iterator<char>(lines)), {});
  state_ = control::parse_state(rest);
  ran_.clear();
  last_.reset();
}

plan::CostTable agreed_costs(comm::Communicator& communicator, const plan::CostTable& mine, std::optional<Seconds> deadline) {
  plan::CostTable slowest;
  for (const std::string& text : gather_texts(communicator, plan::to_text(mine), deadline)) {
    const plan::CostTable table = plan::parse_cost_table(text);
    for (std::size_t o = 0; o < plan::kOperationNames.size(); ++o) {
      const auto operation = static_cast<plan::Operation>(o);
      const auto cost = table.find(operation);
      if (!cost) continue;
      const plan::Cost known = slowest.find(operation).value_or(plan::Cost{});
      slowest.set(operation, {.ns_per_element = std::max(known.ns_per_element, cost->ns_per_element),
                              .ns_per_entry = std::max(known.ns_per_entry, cost->ns_per_entry)});
    }
  }
  return slowest;
}

}  // namespace pliant::engine
