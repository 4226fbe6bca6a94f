// SPDX-License-Identifier: MIT
#include "pliant/engine/update_exchange.h"

#include <algorithm>
#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/kernels/dense.h"
#include "pliant/kernels/sampled_energy.h"

namespace pliant::engine {
namespace {

// The groups of an exchange, as payloads and the run log count them.
constexpr std::uint32_t kParameters = 0;
constexpr std::uint32_t kBuffers = 1;

// Momentum at entries that were sent is cleared up to this density, at every=1: our trials gained
// by it up to here and lost from 3 % on.
constexpr double kClearedUpTo = 0.01;

// Holds back entries of buffers that are not finite in the base (masks, say) while progress is
// taken: infinity minus itself is not a number. One that has stopped being finite since goes back
// to the base.
class NonFiniteHold {
 public:
  explicit NonFiniteHold(FlatTensors& buffers) : buffers_(buffers) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (!std::isfinite(buffers.base[i])) {
        held_.push_back(
            {i, std::exchange(buffers.now[i], 0.0F), std::exchange(buffers.base[i], 0.0F)});
      } else if (!std::isfinite(buffers.now[i])) {
        buffers.now[i] = buffers.base[i];
      }
    }
  }
  ~NonFiniteHold() {
    for (const Entry& entry : held_) {
      buffers_.now[entry.index] = entry.now;
      buffers_.base[entry.index] = entry.base;
    }
  }
  NonFiniteHold(const NonFiniteHold&) = delete;
  NonFiniteHold& operator=(const NonFiniteHold&) = delete;

 private:
  struct Entry {
    std::size_t index;
    float now, base;
  };
  FlatTensors& buffers_;
  std::vector<Entry> held_;
};

}  // namespace

UpdateExchange::UpdateExchange(Services& services, const Options& options,
                               CommonShare& common_share, std::vector<std::size_t> parameter_sizes,
                               std::vector<std::size_t> buffer_sizes)
    : services_(services),
      options_(options),
      common_share_(common_share),
      parameters_(std::move(parameter_sizes)),
      buffers_(std::move(buffer_sizes)) {}

UpdateExchange::~UpdateExchange() { drop_flights(); }

// --- the base ---

void UpdateExchange::drop_flights() {
  for (const auto& flight : in_flight_) {
    flight->wait();
    for (TensorsInFlight* one : flight->both()) one->flight.reset();
  }
  in_flight_.clear();
}

void UpdateExchange::forget_base() {
  based_ = false;
  aside_.clear();
  timing_ = {};
  held_ = 0;
  hashes_.clear();
}

void UpdateExchange::rebase(const ModelTensors& model) {
  drop_flights();
  forget_base();
  parameters_.read(model.parameters);
  buffers_.read(model.buffers);
  parameters_.rebase();
  buffers_.rebase();
  based_ = true;
}

void UpdateExchange::return_to_base(const ModelTensors& model) {
  require(in_flight_.empty(), "engine: {} exchanges are in flight", in_flight_.size());
  std::ranges::copy(parameters_.base.span(), parameters_.now.span().begin());
  parameters_.write(model.parameters);
}

// A buffer that is not finite in the base (a mask) has no progress: it stays as it is.
void UpdateExchange::set_aside(const ModelTensors& model) {
  aside_.clear();
  parameters_.read(model.parameters);
  buffers_.read(model.buffers);
  const auto lay_aside = [this](FlatTensors& tensors, TensorsInFlight InFlight::*one) {
    const std::span<const float> reference = reference_of(tensors, one);
    const auto now = tensors.now.span();
    auto& progress = aside_.emplace_back(now.size(), 0.0F);
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (!std::isfinite(reference[i])) continue;
      progress[i] = now[i] - reference[i];
      now[i] = reference[i];
    }
  };
  lay_aside(parameters_, &InFlight::parameters);
  lay_aside(buffers_, &InFlight::buffers);
  parameters_.write(model.parameters);
  buffers_.write(model.buffers);
}

void UpdateExchange::take_back(const ModelTensors& model) {
  if (aside_.empty()) return;
  parameters_.read(model.parameters);
  buffers_.read(model.buffers);
  const auto add = [](std::span<float> now, std::span<const float> progress) {
    for (std::size_t i = 0; i < now.size(); ++i) now[i] += progress[i];
  };
  add(parameters_.now.span(), aside_.front());
  add(buffers_.now.span(), aside_.back());
  aside_.clear();
  parameters_.write(model.parameters);
  buffers_.write(model.buffers);
}

std::span<const float> UpdateExchange::reference_of(FlatTensors& tensors,
                                                    TensorsInFlight InFlight::*one) const {
  if (in_flight_.empty()) return tensors.base.span();
  std::ranges::copy(tensors.base.span(), tensors.reference.span().begin());
  for (const auto& flight : in_flight_) ((*flight).*one).add_own_part(tensors.reference.span());
  return tensors.reference.span();
}

// --- sending ---

bool UpdateExchange::send(const ModelTensors& model, const Sending& sending) {
  require(based_, "engine: updates without a base");
  const auto flight = std::make_shared<InFlight>(sending);
  flight->begin = services_.now();
  flight->lane = static_cast<std::size_t>(launched_ % services_.lanes.size());
  parameters_.read(model.parameters);
  buffers_.read(model.buffers);
  const bool is_finite = std::isfinite(kernels::energy(parameters_.now.span()));
  {
    const NonFiniteHold hold(buffers_);
    depart(parameters_, &InFlight::parameters, *flight);
    depart(buffers_, &InFlight::buffers, *flight);
  }
  if (sending.late() || !is_finite) {
    parameters_.write(model.parameters);
    buffers_.write(model.buffers);
  }
  const Seconds sent = services_.now();
  timing_.worked += sent - *flight->begin;
  const auto flags = flight->record.flags;
  flight->record = record_of(sending, sent);
  flight->record.flags |= flags;
  if (!is_finite) flight->record.flags |= agree::kNotFinite;
  launch(flight);
  return is_finite;
}

void UpdateExchange::depart(FlatTensors& tensors, TensorsInFlight InFlight::*one,
                            InFlight& flight) {
  if (tensors.size() == 0) return;
  const bool are_buffers = &tensors == &buffers_;
  const std::span<const float> reference = reference_of(tensors, one);
  const plan::Plan& plan = flight.sending.round.plan;
  if (are_buffers) {
    if (!std::ranges::equal(tensors.now.span(), reference))
      flight.record.flags |= agree::kBuffersChanged;
    if (!flight.sending.with_buffers) return;
  } else {
    flight.energies.contribution = services_.observer.sample(tensors.now.span(), reference);
  }
  const exchange::Terms terms{.plan = are_buffers ? plan::beside(plan, tensors.size()) : plan,
                              .round = flight.sending.round.number,
                              .plan_version = flight.sending.round.plan_version,
                              .bucket = are_buffers ? kBuffers : kParameters,
                              .deadline = flight.sending.round.deadline};
  auto& departed = (flight.*one).flight;
  departed = exchange::depart(
      services_.lane(launched_).communicator(), *tensors.group, terms,
      compress::Progress{.parameters = tensors.now.span(), .reference = reference});
  // While a late exchange is under way the own part stands in for the average.
  if (flight.sending.late()) departed->add_own_part(tensors.now.span());
}

agree::Record UpdateExchange::record_of(const Sending& sending, Seconds sent) {
  agree::Record record{
      .flags = static_cast<std::uint16_t>(sending.settling ? agree::kSettling : 0),
      .epoch = sending.round.plan_version,
      .step = sending.round.number,
      .plan = static_cast<std::uint32_t>(plan::hash(sending.round.plan)),
      .rates = sending.rates,
      .coding = static_cast<float>(std::exchange(timing_.worked, Seconds{}).value)};
  if (timing_.last_sending) {
    record.whole = static_cast<float>((sent - *timing_.last_sending).value);
    record.exposed = static_cast<float>(std::exchange(timing_.waited, Seconds{}).value);
  }
  timing_.last_sending = sent;
  const auto& compared = sending.round.compared;
  if (const auto hash = compared ? hashes_.find(*compared) : hashes_.end(); hash != hashes_.end()) {
    record.flags |= agree::kAppliedHashed;
    record.applied = hash->second;
    hashes_.erase(hashes_.begin(), std::next(hash));
  }
  return record;
}

void UpdateExchange::launch(const std::shared_ptr<InFlight>& flight) {
  in_flight_.push_back(flight);
  const std::uint64_t turn = launched_++;
  services_.lane(turn).run([this, flight, turn](comm::Communicator& communicator) {
    travel(communicator, *flight, turn);
    flight->arrive();
  });
}

void UpdateExchange::travel(comm::Communicator& communicator, InFlight& flight,
                            std::uint64_t number) {
  Turnstile::Turn turn(wire_, number);
  turn.enter();
  const Seconds began = services_.now();
  try {
    services_.failure.check();
    std::size_t place = 0;
    for (TensorsInFlight* one : flight.both()) {
      float& wire = flight.record.wire.at(place++);
      if (one->flight == nullptr) continue;
      one->flight->travel(communicator);
      wire = static_cast<float>(one->flight->report().wire.value);
    }
  } catch (...) {
    services_.fail_with_current_exception();
  }
  if (services_.failure.get() == nullptr) services_.post(flight.record);
  if (!services_.has_threads()) {  // then this is the training thread
    note_wait(services_.now() - began);
  }
}

void UpdateExchange::note_wait(Seconds waited) {
  timing_.waited += waited;
  services_.observer.waited(waited);
}

// --- landing ---

const Sending* UpdateExchange::next() const {
  return in_flight_.empty() ? nullptr : &in_flight_.front()->sending;
}

exchange::Report UpdateExchange::land(const ModelTensors& model) {
  const std::shared_ptr<InFlight> flight = in_flight_.front();
  check_arrival(*flight);
  const Seconds arrived = services_.now();
  parameters_.check(model.parameters);
  buffers_.check(model.buffers);
  const bool has_buffers = flight->sending.with_buffers && buffers_.size() > 0;
  const exchange::Report report = flight->parameters.land(parameters_);
  const exchange::Report beside = has_buffers ? flight->buffers.land(buffers_) : exchange::Report{};
  in_flight_.pop_front();
  const auto own_part = parameters_.reference.span();
  if (options_.adam && !report.is_void) {
    common_share_.note({.result = parameters_.result.span(),
                        .own_part = own_part,
                        .residual = parameters_.residual.span()},
                       services_.ranks(), kernels::sample_stride(parameters_.size()));
  }
  parameters_.land(model.parameters, own_part, flight->sending.late());
  if (report.is_void || beside.is_void) {
    // A void exchange changes no buffer, and their progress is still in them.
    std::ranges::fill(buffers_.residual.span(), 0.0F);
  } else if (has_buffers) {
    buffers_.land(model.buffers, buffers_.reference.span(), flight->sending.late());
  }
  if (!report.is_void) remember_sent(flight->sending.round.plan);
  held_ = report.held + beside.held;
  services_.tallies.add(report);
  services_.tallies.add_beside(beside);
  if (flight->begin) this->report(*flight, report, beside);
  remember_base(flight->sending.round.number);
  timing_.worked += services_.now() - arrived;
  return report;
}

// Waits until the exchange has travelled. Throws the failure if there was one.
void UpdateExchange::check_arrival(InFlight& flight) {
  const Seconds came = services_.now();
  flight.wait();
  note_wait(services_.now() - came);
  if (services_.failure.get() == nullptr) return;
  for (TensorsInFlight* one : flight.both()) one->give_back();
  in_flight_.pop_front();
  services_.failure.check();
}

void UpdateExchange::remember_sent(const plan::Plan& plan) {
  if (plan.scheme == plan::Scheme::kDense || plan.every != 1 || plan.density > kClearedUpTo) return;
  const auto own_part = parameters_.reference.span();
  sent_.resize(own_part.size());
  for (std::size_t i = 0; i < own_part.size(); ++i) {
    if (own_part[i] != 0) sent_[i] = true;
  }
}

void UpdateExchange::remember_base(std::uint64_t round) {
  const auto every = static_cast<std::uint64_t>(std::max(options_.check_every, 0));
  if (every == 0 || round % every != 0) return;
  hashes_[round] = static_cast<std::uint32_t>(pliant::hash(std::as_bytes(parameters_.base.span())));
}

void UpdateExchange::report(InFlight& flight, const exchange::Report& parameters,
                            const exchange::Report& buffers) {
  const Sending& sending = flight.sending;
  flight.energies.residual =
      services_.observer.sample(parameters_.residual.span(), parameters_.size());
  const auto tell = [&](std::size_t group, const exchange::Report& report, std::size_t entries) {
    services_.observer.exchanged(sending.round.number, {.span = {.group = group,
                                                                 .lane = flight.lane,
                                                                 .begin = *flight.begin,
                                                                 .enter = report.traffic.entered,
                                                                 .leave = report.traffic.finished,
                                                                 .end = services_.now(),
                                                                 .bytes = report.traffic.sent,
                                                                 .entries = entries},
                                                        .report = report,
                                                        .parameters = group == kParameters,
                                                        .energies = flight.energies});
  };
  tell(kParameters, parameters, parameters_.size());
  if (sending.with_buffers && buffers_.size() > 0) tell(kBuffers, buffers, buffers_.size());
  services_.observer.landed(sending.round.number, {});
}

void UpdateExchange::clear_at_sent(Tensors tensors) const {
  std::size_t begin = 0;
  for (const auto& tensor : tensors) {
    for (std::size_t i = 0; i < tensor.size() && begin + i < sent_.size(); ++i) {
      if (sent_[begin + i]) tensor[i] = 0;
    }
    begin += tensor.size();
  }
}

// --- checkpoints and accounting ---

void UpdateExchange::write(State& state) {
  state.residual = parameters_.split(parameters_.residual.span());
  state.base = parameters_.split(parameters_.base.span());
  state.buffers = buffers_.split(buffers_.base.span());
  if (parameters_.group->voted) state.voted = {*parameters_.group->voted};
  for (const auto& flight : in_flight_) {
    flight->wait();
    services_.failure.check();
    const Sending& sending = flight->sending;
    State::InFlight saved{.number = sending.round.number,
                          .sent = sending.sent,
                          .due = sending.due,
                          .plan = to_string(sending.round.plan),
                          .epoch = sending.round.plan_version};
    flight->parameters.save(parameters_, saved);
    flight->buffers.save(buffers_, saved);
    state.in_flight.push_back(std::move(saved));
  }
}

void UpdateExchange::read(const State& state) {
  drop_flights();
  forget_base();
  parameters_.restore(state.base, state.residual);
  buffers_.restore(state.buffers, {});
  if (!state.voted.empty() && state.voted.front() >= 0)
    parameters_.group->voted = state.voted.front();
  for (const State::InFlight& saved : state.in_flight) {
    const auto flight = std::make_shared<InFlight>(
        Sending{.round = {.number = saved.number,
                          .plan = plan::parse_plan(saved.plan, "a plan in the state"),
                          .plan_version = saved.epoch},
                .sent = saved.sent,
                .due = saved.due});
    flight->parameters.restore(parameters_, saved, 0);
    flight->buffers.restore(buffers_, saved, parameters_.tensors());
    flight->arrive();
    in_flight_.push_back(flight);
  }
  based_ = true;
}

void UpdateExchange::count_memory(Memory& memory) const {
  memory.residual += parameters_.residual.span().size_bytes();
  memory.base = parameters_.base.span().size_bytes();
  memory.in_flight = held_ * std::max<std::size_t>(1, in_flight_.size());
  memory.scratch += parameters_.scratch_bytes() + buffers_.scratch_bytes() + sent_.size() / 8;
}

}  // namespace pliant::engine
