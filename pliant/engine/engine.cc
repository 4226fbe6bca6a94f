// SPDX-License-Identifier: MIT
#include "pliant/engine/engine.h"

#include <algorithm>
#include <numeric>

#include "pliant/agree/handshake.h"
#include "pliant/common/errors.h"
#include "pliant/compress/measure.h"
#include "pliant/engine/opening.h"
#include "pliant/engine/parts.h"
#include "pliant/planner/planner.h"

namespace pliant::engine {
namespace {

// Exchanges use smaller tags.
constexpr comm::Tag kRecordTag = comm::kLargestTag;

std::vector<std::size_t> sizes_of(const std::vector<Parameter>& parameters) {
  std::vector<std::size_t> sizes;
  sizes.reserve(parameters.size());
  for (const Parameter& parameter : parameters) sizes.push_back(parameter.size);
  return sizes;
}

std::size_t total_of(const std::vector<Parameter>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::size_t{0},
                         [](std::size_t sum, const Parameter& one) { return sum + one.size; });
}

std::optional<std::string> text_of(const std::exception_ptr& failure) {
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace

// --- the parts ---

Parts::Parts(Communicators communicators, std::vector<Parameter> parameter_list,
             Options user_options, std::vector<Parameter> buffer_list)
    : parameters(std::move(parameter_list)),
      buffers(std::move(buffer_list)),
      options(std::move(user_options)),
      rounds(services, options),
      gradients(services, options, sizes_of(parameters)) {
  require(communicators.control != nullptr, "engine: no communicator for control");
  require(!parameters.empty(), "engine: a model without parameters");
  comm::Communicator& control = *communicators.control;
  services.part = communicators.part;
  compare(communicators);
  std::unique_ptr<runlog::RunLog> log = open_log(options, control);
  costs = agree::slowest_costs(control, options.costs ? *options.costs : compress::measure_costs(),
                               options.deadline);
  services.log = options.log;
  make_lanes(std::move(communicators));
  services.records =
      std::make_unique<agree::Records>(services.failure, options.deadline, kRecordTag);
  if (log != nullptr) log->write(header_of(*this));
  services.observer.start(std::move(log), options.run_log.watched);
  set_plan(options.pins);
  kind = rounds.plan().kind;
}

// Collective: throws unless ranks agree, and notes how much the largest part has to exchange.
void Parts::compare(const Communicators& communicators) {
  comm::Communicator& control = *communicators.control;
  agree::Facts facts = facts_of(options);
  const agree::Facts model = facts_of(parameters, buffers);
  most_exchanged = {total_of(parameters), total_of(buffers)};
  if (communicators.lanes.empty() || communicators.lanes.front()->size() == control.size()) {
    facts.insert(facts.end(), model.begin(), model.end());
    agree::agree(control, facts, options.deadline);
    return;
  }
  facts.emplace_back("the number of islands", std::to_string(communicators.lanes.front()->size()));
  agree::agree(control, facts, options.deadline);
  agree::agree(control, model, options.deadline, communicators.part);
  const auto most = agree::largest(control, {most_exchanged.parameters, most_exchanged.buffers},
                                   options.deadline);
  most_exchanged = {most.front(), most.back()};
}

void Parts::make_lanes(Communicators communicators) {
  if (communicators.lanes.empty()) {
    services.lanes.push_back(
        std::make_unique<Lane>(std::move(communicators.control), Threading::kCaller));
    return;
  }
  for (auto& communicator : communicators.lanes) {
    require(communicator->capabilities().threads,
            "engine: lanes over a communicator that allows no threads");
    services.lanes.push_back(
        std::make_unique<Lane>(std::move(communicator), Threading::kOwnThread));
  }
  services.control_lane =
      std::make_unique<Lane>(std::move(communicators.control), Threading::kOwnThread);
}

void Parts::check_open() const {
  require(!closed, "engine: it is closed");
  services.failure.check();
}

void Parts::set_plan(const plan::Pins& pins) {
  planner::Setup setup{
      .pins = pins,
      .warm_up = options.warm_up,
      .warm_up_steps = options.warm_up_steps,
      .ranks = services.ranks(),
      .lanes = services.has_threads() ? static_cast<int>(services.lanes.size()) : 0,
      .buffers = most_exchanged.buffers,
      .adam = options.adam,
      .costs = costs,
      .control = options.control,
      .efficiency = options.efficiency,
      .drift = options.drift,
      .drag = options.drag,
      .log = [this](Severity severity, std::string_view text) { services.say(severity, text); },
      .front = !options.run_log.path.empty()};
  const auto& capabilities = services.lanes.front()->communicator().capabilities();
  setup.control.candidates = {.updates = options.updates,
                              .backend_all_reduce = capabilities.own_all_reduce,
                              .shared = options.shared};
  // Parts differ in size by a few entries, and all ranks must predict alike.
  const auto units = services.has_parts() ? std::vector{most_exchanged.parameters}
                                          : gradients.groups().unit_lengths();
  rounds.set_planner(std::make_unique<planner::Planner>(std::move(setup), units));
  if (network) rounds.planner().set_network(network);
}

plan::Kind Parts::next_kind() {
  if (!leaves_gradients || gradients.step_is_open()) return kind;
  leaves_gradients = false;
  gradients.wait();
  if (gradients.has_residual() || services.failure.get()) return kind;
  gradients.forget_timing();
  if (updates != nullptr) updates->forget_base();
  kind = plan::Kind::kUpdates;
  return kind;
}

UpdateExchange& Parts::make_updates() {
  if (updates == nullptr) {
    updates = std::make_unique<UpdateExchange>(services, options, common_share,
                                               sizes_of(parameters), sizes_of(buffers));
  }
  return *updates;
}

// --- the engine ---

Engine::Engine(Communicators communicators, std::vector<Parameter> parameters, Options options,
               std::vector<Parameter> buffers)
    : parts_(std::make_unique<Parts>(std::move(communicators), std::move(parameters),
                                     std::move(options), std::move(buffers))),
      gradients_(*parts_),
      updates_(*parts_),
      log_(*parts_) {}

Engine::~Engine() { close(); }

plan::Kind Engine::kind() const { return parts_->next_kind(); }

plan::Plan Engine::plan() const { return parts_->rounds.plan(); }

double Engine::worth() const { return parts_->rounds.worth(); }

double Engine::effective_steps() const { return parts_->rounds.effective_steps(); }

void Engine::set_plan(const plan::Pins& pins) { parts_->set_plan(pins); }

void Engine::set_network(const std::optional<plan::Link>& link) {
  parts_->network = link;
  parts_->rounds.planner().set_network(link);
}

Summary Engine::summary() const {
  const Parts& parts = *parts_;
  Summary summary{.plan = to_string(plan()),
                  .epoch = parts.rounds.plan_version(),
                  .rounds = parts.rounds.number(),
                  .steps = parts.services.observer.begun(),
                  .lengthening = updates_.step_scale(),
                  .worth = worth(),
                  .effective_steps = effective_steps(),
                  .decisions = parts.rounds.decisions(),
                  .reasons = parts.rounds.reasons()};
  parts.services.tallies.write(summary);
  const agree::Records::Total control = parts.services.records->total();
  summary.control_sent = control.sent;
  summary.control_time = control.took;
  summary.sent += control.sent;
  if (const auto link = parts.rounds.planner().link()) summary.network = plan::describe(*link);
  parts.gradients.count_memory(summary.memory);
  if (parts.updates != nullptr) parts.updates->count_memory(summary.memory);
  return summary;
}

State Engine::state() const {
  Gradients(*parts_).end_step();
  Parts& parts = *parts_;
  State state;
  parts.rounds.write(state);
  if (parts.next_kind() == plan::Kind::kUpdates && parts.updates != nullptr &&
      parts.updates->based()) {
    state.updates = true;
    state.units = parts.gradients.groups().units();
    state.exchanges = parts.gradients.exchanges();
    state.own_steps = parts.own_steps.completed;
    state.next_exchange = parts.own_steps.next_exchange;
    parts.updates->write(state);
  } else {
    parts.gradients.write(state);
  }
  state.common_share = parts.common_share.energies();
  state.kind = parts.kind;
  return state;
}

void Engine::restore(const State& state) {
  Parts& parts = *parts_;
  require(!parts.gradients.step_is_open(),
          "engine: a state cannot be restored in the middle of a step");
  parts.gradients.wait();
  parts.services.drain();
  parts.rounds.report_the_rest();
  parts.services.records->clear();
  parts.services.failure.check();
  parts.gradients.forget_timing();
  if (state.updates) {
    parts.make_updates().read(state);
    parts.own_steps = {state.own_steps, state.next_exchange};
    State empty{.step = state.step, .exchanges = state.exchanges, .units = state.units};
    empty.residual.resize(parts.parameters.size());
    parts.gradients.read(empty);
  } else {
    parts.gradients.read(state);
    if (parts.updates != nullptr) parts.updates->forget_base();
  }
  parts.rounds.restore(state);
  parts.common_share.restore(state.common_share);
  parts.kind = state.kind;
  parts.leaves_gradients = false;
}

void Engine::close(runlog::Ending ending) {
  Parts& parts = *parts_;
  if (std::exchange(parts.closed, true)) return;
  parts.gradients.wait();
  parts.services.drain();
  parts.rounds.report_the_rest();
  const Summary all = summary();
  // Once a run is interrupted, ranks lose each other one by one.
  const auto why = text_of(parts.services.failure.get());
  if (why && !ending.is_interrupted) ending.error = why;
  parts.services.observer.end(ending, {.plan = all.plan,
                                       .exchanges = all.exchanges,
                                       .bytes = all.sent - all.control_sent,
                                       .control_bytes = all.control_sent,
                                       .voids = all.voids});
  parts.services.warn_if_log_failed();
}

// --- the user's side of the run log ---

void Notes::note(std::span<const std::pair<std::string, double>> values) {
  parts_.services.observer.note(values);
  parts_.services.warn_if_log_failed();
}

void Notes::phase(std::string_view name) { parts_.services.observer.phase(name); }

void Notes::message(Severity severity, std::string_view text) {
  parts_.services.observer.message(severity, text);
}

void Notes::count_sent(Bytes bytes) {
  parts_.services.tallies.add_sent(bytes);
  parts_.services.observer.sent_beside(bytes);
}

std::string Notes::latest() const { return parts_.services.observer.latest(); }

}  // namespace pliant::engine
