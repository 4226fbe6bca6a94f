// SPDX-License-Identifier: MIT
#include "pliant/engine/updates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "pliant/comm/errors.h"
#include "pliant/common/errors.h"
#include "pliant/engine/parts.h"

namespace pliant::engine {
namespace {

// The base of one list of tensors, tensor by tensor.
std::vector<std::vector<float>> copies(const FlatTensors& flat,
                                       const std::vector<Parameter>& list) {
  std::vector<std::vector<float>> tensors;
  std::size_t begin = 0;
  for (const Parameter& tensor : list) {
    const auto part = flat.base.span().subspan(begin, tensor.size);
    tensors.emplace_back(part.begin(), part.end());
    begin += tensor.size;
  }
  return tensors;
}

}  // namespace

bool Updates::has_base() const { return parts_.updates != nullptr && parts_.updates->based(); }

Stepped Updates::step(const ModelTensors& model) {
  parts_.check_open();
  if (parts_.next_kind() != plan::Kind::kUpdates) return {};
  if (!has_base()) {
    rebase(model);
    return {};
  }
  const Busy busy(parts_.services);
  const plan::Plan plan = parts_.rounds.coming_plan();
  parts_.services.observer.begin_step(busy.began(), plan, parts_.rounds.version_of(plan),
                                      parts_.rounds.worth());
  UpdateExchange& updates = *parts_.updates;
  Stepped stepped;
  ++parts_.own_steps.completed;
  parts_.rounds.count_step();
  updates.forget_sent();
  while (updates.next() != nullptr && updates.next()->due <= parts_.own_steps.completed) {
    land(model);
    stepped.landed = true;
  }
  if (parts_.own_steps.completed < parts_.own_steps.next_exchange) return stepped;
  stepped.sent = true;
  stepped.finite = exchange(model, Settling::kNo).finite;
  stepped.landed = stepped.landed || parts_.rounds.plan().late == 0;
  return stepped;
}

Updates::Exchanged Updates::exchange(const ModelTensors& model, Settling settling) {
  Rounds& rounds = parts_.rounds;
  auto& [completed, next_exchange] = parts_.own_steps;
  const Round round = rounds.open(plan::Kind::kUpdates);
  const bool at_once = settling == Settling::kYes || round.plan.late == 0;
  if (at_once || round.lands_sooner) land_all(model);
  UpdateExchange& updates = *parts_.updates;
  if (round.changes_kind) updates.take_back(model);  // it is flushed with the rest
  parts_.services.observer.send_round(round.number, round.plan, round.plan_version,
                                      [&] { return rounds.planner().outlook(round.plan); });
  rounds.sent();
  next_exchange = completed + static_cast<std::uint64_t>(round.plan.every);
  const auto late = static_cast<std::uint64_t>(at_once ? 0 : round.plan.late);
  Exchanged exchanged{.finite = updates.send(
                          model, {.round = round,
                                  .sent = completed,
                                  .due = completed + late,
                                  .settling = settling == Settling::kYes,
                                  .with_buffers = settling == Settling::kYes ||
                                                  round.changes_kind || !rounds.buffers_are_still(),
                                  .rates = parts_.rates})};
  if (at_once) exchanged.is_void = land(model);
  // A void exchange returned everything to the residual: the next exchange flushes it.
  if (round.changes_kind && !exchanged.is_void) {
    updates.forget_base();
    parts_.gradients.forget_timing();
    parts_.kind = plan::Kind::kGradients;
  }
  return exchanged;
}

bool Updates::land(const ModelTensors& model) {
  const std::uint64_t round = parts_.updates->next()->round.number;
  const exchange::Report report = parts_.updates->land(model);
  // Other parts have other results, and all ranks must decide alike.
  const bool is_common = !parts_.services.has_parts();
  if (is_common && !report.is_void && report.updated_fraction > 0)
    parts_.rounds.set_result(round, {report.updated_fraction, report.aggregate_gain});
  return report.is_void;
}

void Updates::land_all(const ModelTensors& model) {
  while (parts_.updates->next() != nullptr) land(model);
}

// Ranks that are one or two exchanges behind come soon. Ranks that train on were not meant to come:
// the user has called settled() or close() on this rank only.
class Updates::Roll {
 public:
  explicit Roll(Parts& parts) : parts_(parts), began_(parts.services.now()) {}

  // After each exchange. Warns once, and throws AbsentError after the deadline.
  void check() {
    const std::vector<int> absent = parts_.rounds.not_settled();
    if (absent.empty()) return;
    constexpr int kSoon = 4;
    const Seconds waited = parts_.services.now() - began_;
    const bool late = parts_.options.deadline && waited > *parts_.options.deadline;
    if (++exchanges_ < kSoon || (exchanges_ > kSoon && !late)) return;
    const std::string what = fmt::format(
        "rank {} is settling (settled(), close(), rebase() or loaded parameters), which every rank "
        "must do: rank {} trained on, through {} exchanges in {}",
        parts_.services.rank(), fmt::join(absent, ", "), exchanges_, to_string(waited));
    if (!late) return parts_.services.say(Severity::kWarning, what);
    throw comm::AbsentError(
        parts_.services.rank(), absent.front(),
        fmt::format("{} (deadline {}). To evaluate or save on one rank use on_base().", what,
                    to_string(*parts_.options.deadline)));
  }

 private:
  Parts& parts_;
  Seconds began_;
  int exchanges_ = 0;
};

// A rank that has come here goes on exchanging with those that have not, until one exchange finds
// everybody here and is not void. Returns whether there is still a base: the last exchange may have
// been one that changes the kind, on all ranks.
bool Updates::exchange_until_all_are_here(const ModelTensors& model, Patience patience) {
  parts_.services.failure.check();
  if (parts_.next_kind() != plan::Kind::kUpdates) {
    Gradients(parts_).end_step();
    return false;
  }
  require(has_base(), "engine: settling without a base");
  const Busy busy(parts_.services);
  Roll roll(parts_);
  while (true) {
    const bool is_void = exchange(model, Settling::kYes).is_void;
    if (parts_.kind != plan::Kind::kUpdates) return false;
    if (parts_.rounds.not_settled().empty() && !is_void) return true;
    if (patience == Patience::kDeadline) roll.check();
  }
}

void Updates::settle(const ModelTensors& model, Patience patience) {
  if (exchange_until_all_are_here(model, patience)) parts_.updates->return_to_base(model);
}

void Updates::settle_keeping_progress(const ModelTensors& model) {
  parts_.services.failure.check();
  if (parts_.next_kind() == plan::Kind::kUpdates && has_base()) parts_.updates->set_aside(model);
  try {
    if (!exchange_until_all_are_here(model, Patience::kDeadline)) return;
    parts_.updates->return_to_base(model);
  } catch (...) {
    if (parts_.updates != nullptr) parts_.updates->take_back(model);
    throw;
  }
  parts_.updates->take_back(model);
}

void Updates::rebase(const ModelTensors& model) {
  if (parts_.next_kind() != plan::Kind::kUpdates) return;  // gradients have no base
  parts_.make_updates().rebase(model);
  parts_.services.observer.give_up_landings();
  parts_.own_steps.completed = 0;
  parts_.own_steps.next_exchange = static_cast<std::uint64_t>(parts_.rounds.choose_ahead().every);
}

std::vector<std::vector<float>> Updates::base() const {
  require(has_base(), "engine: there is no base: the plan is of kind gradients");
  return copies(parts_.updates->parameters(), parts_.parameters);
}

std::vector<std::vector<float>> Updates::buffers() const {
  require(has_base(), "engine: there is no base: the plan is of kind gradients");
  return copies(parts_.updates->buffers(), parts_.buffers);
}

void Updates::clear_at_sent(const TensorList& tensors) const {
  if (parts_.updates != nullptr) parts_.updates->clear_at_sent(tensors);
}

double Updates::step_scale() const {
  const int ranks = parts_.services.ranks();
  if (parts_.next_kind() != plan::Kind::kUpdates || !parts_.options.adam || ranks == 1) return 1;
  return std::pow(parts_.common_share.lengthening(ranks), parts_.options.lengthen);
}

void Updates::set_rates_hash(std::uint32_t rates) { parts_.rates = rates; }

}  // namespace pliant::engine
