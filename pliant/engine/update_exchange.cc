// SPDX-License-Identifier: MIT
#include "pliant/engine/update_exchange.h"

#include <algorithm>
#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
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
  NonFiniteHold(std::span<float> now, std::span<float> base) : now_(now), base_(base) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (!std::isfinite(base[i])) {
        held_.push_back({i, std::exchange(now[i], 0.0F), std::exchange(base[i], 0.0F)});
      } else if (!std::isfinite(now[i])) {
        now[i] = base[i];
      }
    }
  }
  ~NonFiniteHold() {
    for (const Entry& entry : held_) {
      now_[entry.index] = entry.now;
      base_[entry.index] = entry.base;
    }
  }
  NonFiniteHold(const NonFiniteHold&) = delete;
  NonFiniteHold& operator=(const NonFiniteHold&) = delete;

 private:
  struct Entry {
    std::size_t index;
    float now, base;
  };
  std::span<float> now_, base_;
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
  parameters_.rebase(model.parameters.access());
  buffers_.rebase(model.buffers.access());
  based_ = true;
}

void UpdateExchange::return_to_base(const ModelTensors& model) {
  require(in_flight_.empty(), "engine: {} exchanges are in flight", in_flight_.size());
  TensorAccess& tensors = model.parameters.access();
  parameters_.check(tensors);
  for_each_chunk(parameters_.size(), [&](std::size_t begin, std::size_t count) {
    parameters_.store(tensors, begin, parameters_.base.span().subspan(begin, count));
  });
}

// A buffer that is not finite in the base (a mask) has no progress: it stays as it is.
void UpdateExchange::set_aside(const ModelTensors& model) {
  aside_.clear();
  const auto lay_aside = [this](FlatTensors& flat, TensorAccess& tensors,
                                TensorsInFlight InFlight::*one) {
    flat.check(tensors);
    const AddOwnParts add_own_parts = own_parts(one);
    std::vector<float> progress(flat.size(), 0.0F);
    std::vector<float> reference;
    std::vector<float> now;
    for_each_chunk(flat.size(), [&](std::size_t begin, std::size_t count) {
      const auto base = flat.base.span().subspan(begin, count);
      reference.assign(base.begin(), base.end());
      if (add_own_parts) add_own_parts(begin, reference);
      now.resize(count);
      tensors.read(begin, now);
      for (std::size_t i = 0; i < count; ++i) {
        if (!std::isfinite(reference[i])) continue;
        progress[begin + i] = now[i] - reference[i];
        now[i] = reference[i];
      }
      flat.store(tensors, begin, now);
    });
    aside_.push_back(std::move(progress));
  };
  lay_aside(parameters_, model.parameters.access(), &InFlight::parameters);
  lay_aside(buffers_, model.buffers.access(), &InFlight::buffers);
}

void UpdateExchange::take_back(const ModelTensors& model) {
  if (aside_.empty()) return;
  const auto add = [](FlatTensors& flat, TensorAccess& tensors, std::span<const float> progress) {
    flat.check(tensors);
    for_each_chunk(flat.size(), [&](std::size_t begin, std::size_t count) {
      flat.add(tensors, begin, progress.subspan(begin, count));
    });
  };
  add(parameters_, model.parameters.access(), aside_.front());
  add(buffers_, model.buffers.access(), aside_.back());
  aside_.clear();
}

AddOwnParts UpdateExchange::own_parts(TensorsInFlight InFlight::*one) const {
  if (in_flight_.empty()) return {};
  return [this, one](std::size_t begin, std::span<float> to) {
    for (const auto& flight : in_flight_) ((*flight).*one).add_own_part(begin, to);
  };
}

// --- sending ---

bool UpdateExchange::send(const ModelTensors& model, const Sending& sending) {
  require(based_, "engine: updates without a base");
  const auto flight = std::make_shared<InFlight>(sending);
  flight->begin = services_.now();
  flight->lane = static_cast<std::size_t>(launched_ % services_.lanes.size());
  parameters_.check(model.parameters.access());
  buffers_.check(model.buffers.access());
  depart_parameters(model.parameters.access(), *flight);
  const bool is_finite =
      flight->parameters.flight == nullptr || flight->parameters.flight->finite();
  depart_buffers(model.buffers.access(), *flight, !is_finite);
  const Seconds sent = services_.now();
  timing_.worked += sent - *flight->begin;
  const auto flags = flight->record.flags;
  flight->record = record_of(sending, sent);
  flight->record.flags |= flags;
  if (!is_finite) flight->record.flags |= agree::kNotFinite;
  launch(flight);
  return is_finite;
}

exchange::Terms UpdateExchange::terms_of(const Sending& sending, bool are_buffers) const {
  const plan::Plan& plan = sending.round.plan;
  return {.plan = are_buffers ? plan::beside(plan, buffers_.size()) : plan,
          .round = sending.round.number,
          .plan_version = sending.round.plan_version,
          .bucket = are_buffers ? kBuffers : kParameters,
          .deadline = sending.round.deadline};
}

// One pass over the tensors where they lie. While a late exchange is under way the own part stands
// in for the average. One that lands at once leaves the tensors alone: landing writes them anyway.
void UpdateExchange::depart_parameters(TensorAccess& tensors, InFlight& flight) {
  if (parameters_.size() == 0) return;
  const bool late = flight.sending.late();
  ProgressChunks progress(
      tensors, parameters_, own_parts(&InFlight::parameters),
      {.stores = late,
       .sample_stride = services_.observer.on() ? kernels::sample_stride(parameters_.size()) : 0});
  flight.parameters.flight = exchange::depart(
      services_.lane(launched_).communicator(), *parameters_.group, terms_of(flight.sending, false),
      compress::ProgressInPieces{.source = &progress, .size = parameters_.size()});
  progress.finish();
  flight.energies.contribution = progress.sampled_energy();
  if (late) flight.parameters.add_own_part(parameters_, tensors);
}

void UpdateExchange::depart_buffers(TensorAccess& tensors, InFlight& flight, bool reset) {
  if (buffers_.size() == 0) return;
  const bool late = flight.sending.late();
  std::vector<float> now(buffers_.size());
  tensors.read(0, now);
  {
    const NonFiniteHold hold(now, buffers_.base.span());
    std::vector<float> reference(buffers_.base.span().begin(), buffers_.base.span().end());
    if (const AddOwnParts add = own_parts(&InFlight::buffers)) add(0, reference);
    if (!std::ranges::equal(now, reference)) flight.record.flags |= agree::kBuffersChanged;
    if (flight.sending.with_buffers) {
      auto& departed = flight.buffers.flight;
      departed = exchange::depart(services_.lane(launched_).communicator(), *buffers_.group,
                                  terms_of(flight.sending, true),
                                  compress::Progress{.parameters = now, .reference = reference});
      if (late) departed->add_own_part(now);
    }
  }
  if (late || reset) buffers_.store(tensors, 0, now);
}

agree::Record UpdateExchange::record_of(const Sending& sending, Seconds sent) {
  agree::Record record{
      .flags = static_cast<std::uint8_t>(sending.settling ? agree::kSettling : 0),
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
  services_.tallies.add_wait(waited);
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
  parameters_.check(model.parameters.access());
  buffers_.check(model.buffers.access());
  const bool has_buffers = flight->sending.with_buffers && buffers_.size() > 0;
  const bool late = flight->sending.late();
  const exchange::Report report = flight->parameters.conclude(parameters_);
  const exchange::Report beside =
      has_buffers ? flight->buffers.conclude(buffers_) : exchange::Report{};
  in_flight_.pop_front();
  const bool notes_share = options_.adam && !report.is_void;
  const bool remembers = !report.is_void && clears_at_sent(flight->sending.round.plan);
  if (remembers) sent_.resize(parameters_.size());
  CommonShare::Sums sums;
  const auto sample_distance = kernels::kSampleBlock * kernels::sample_stride(parameters_.size());
  const auto on_chunk = [&](std::size_t begin, std::span<const float> result,
                            std::span<const float> own_part) {
    const std::size_t end = begin + result.size();
    std::size_t block = (begin + sample_distance - 1) / sample_distance * sample_distance;
    for (; notes_share && block < end; block += sample_distance) {
      const std::size_t count = std::min(kernels::kSampleBlock, end - block);
      sums.add({.result = result.subspan(block - begin, count),
                .own_part = own_part.subspan(block - begin, count),
                .residual = parameters_.residual.span().subspan(block, count)},
               services_.ranks());
    }
    for (std::size_t i = 0; remembers && i < own_part.size(); ++i) {
      if (own_part[i] != 0) sent_[begin + i] = true;
    }
  };
  flight->parameters.land(
      parameters_, {.tensors = model.parameters.access(), .late = late, .on_chunk = on_chunk});
  if (notes_share) common_share_.note(sums, services_.ranks());
  if (report.is_void || beside.is_void) {
    // A void exchange changes no buffer, and their progress is still in them.
    std::ranges::fill(buffers_.residual.span(), 0.0F);
    flight->buffers.flight.reset();
  } else if (has_buffers) {
    flight->buffers.land(
        buffers_, {.tensors = model.buffers.access(), .late = late, .skips_non_finite = true});
  }
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

bool UpdateExchange::clears_at_sent(const plan::Plan& plan) const {
  return plan.scheme != plan::Scheme::kDense && plan.every == 1 && plan.density <= kClearedUpTo;
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

void UpdateExchange::clear_at_sent(const TensorList& tensors) const {
  std::vector<std::uint32_t> offsets;
  for (std::size_t begin = 0; begin < sent_.size(); begin += TensorAccess::kChunk) {
    const std::size_t count = std::min(TensorAccess::kChunk, sent_.size() - begin);
    offsets.clear();
    for (std::size_t i = 0; i < count; ++i) {
      if (sent_[begin + i]) offsets.push_back(static_cast<std::uint32_t>(i));
    }
    tensors.access().zero_at(begin, offsets);
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
  memory.scratch +=
      parameters_.group->scratch_bytes() + buffers_.group->scratch_bytes() + sent_.size() / 8;
}

}  // namespace pliant::engine
