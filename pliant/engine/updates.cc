// SPDX-License-Identifier: MIT
#include "pliant/engine/updates.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <numeric>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/compress/residual.h"
#include "pliant/kernels/dense.h"

namespace pliant::engine {
using namespace agree;
using namespace runlog;
using namespace planner;
namespace {

constexpr std::size_t kSides = 2;  // parameters, buffers
constexpr std::size_t kBuffers = 1;

// Momentum at entries that were sent is cleared up to this density, at every=1: our trials gained
// by it up to here and lost from 3 % on.
constexpr double kClearedUpTo = 0.01;

std::size_t total(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

Buffer<float> zeros(std::size_t size) {
  Buffer<float> buffer(size);
  std::ranges::fill(buffer.span(), 0.0F);
  return buffer;
}

}  // namespace

Side::Side(std::vector<std::size_t> sizes)
    : base(zeros(total(sizes))),
      residual(zeros(base.size())),
      now(base.size()),
      reference(base.size()),
      result(base.size()),
      bucket(std::make_unique<exchange::ResidualGroup>(residual.span())),
      sizes_(std::move(sizes)) {}

void Side::check(Tensors tensors) const {
  require(tensors.size() == sizes_.size(), "engine: {} tensors, not {}", tensors.size(),
          sizes_.size());
  for (std::size_t t = 0; t < sizes_.size(); ++t)
    require(tensors[t].size() == sizes_[t], "engine: {} entries for tensor {}, which has {}",
            tensors[t].size(), t, sizes_[t]);
}

void Side::read(Tensors from) {
  check(from);
  auto to = now.span().begin();
  for (const auto& tensor : from) to = std::ranges::copy(tensor, to).out;
}

void Side::write(Tensors to) const {
  auto from = now.span().begin();
  for (const auto& tensor : to) {
    std::copy_n(from, tensor.size(), tensor.begin());
    from += static_cast<std::ptrdiff_t>(tensor.size());
  }
}

std::vector<std::vector<float>> Side::cut(std::span<const float> flat) const {
  std::vector<std::vector<float>> tensors;
  std::size_t begin = 0;
  for (const std::size_t size : sizes_) {
    const auto part = flat.subspan(begin, size);
    begin += size;
    const bool empty = std::ranges::all_of(part, [](float value) { return value == 0; });
    tensors.emplace_back(part.begin(), empty ? part.begin() : part.end());
  }
  return tensors;
}

void Side::join(const std::vector<std::vector<float>>& tensors, std::span<float> flat) const {
  require(tensors.size() == sizes_.size(), "engine: a state of {} tensors for a model of {}",
          tensors.size(), sizes_.size());
  std::ranges::fill(flat, 0.0F);
  std::size_t begin = 0;
  for (std::size_t t = 0; t < sizes_.size(); ++t) {
    require(tensors[t].empty() || tensors[t].size() == sizes_[t],
            "engine: a state of {} entries for tensor {}, which has {}", tensors[t].size(), t,
            sizes_[t]);
    std::ranges::copy(tensors[t], flat.begin() + static_cast<std::ptrdiff_t>(begin));
    begin += sizes_[t];
  }
}

struct Updates::Air {
  // A flight, or what became of one that was saved and restored.
  struct Arrived {
    Buffer<float> result, own_part, returned;
  };
  struct OneSide {
    std::unique_ptr<exchange::Flight> flight;
    std::optional<Arrived> arrived;
    exchange::Report report;

    void add_own_part(std::span<float> to) const {
      if (arrived) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += arrived->own_part[i];
      } else if (flight != nullptr) {
        flight->add_own_part(to);
      }
    }

    // A flight is saved as what will land: the result, the own part, and what will go back to the
    // residual. To learn the last without touching the residual yet, the flight lands on an empty
    // one.
    void arrive(Side& side) {
      if (flight == nullptr) {
        if (!arrived)
          arrived = Arrived{zeros(side.size()), zeros(side.size()),
                            zeros(side.size())};  // it stayed at home
        return;
      }
      const std::vector<float> kept(side.residual.span().begin(), side.residual.span().end());
      std::ranges::fill(side.residual.span(), 0.0F);
      Arrived there{zeros(side.size()), zeros(side.size()), Buffer<float>(side.size())};
      flight->add_own_part(there.own_part.span());
      report = flight->land(there.result.span());
      flight.reset();
      std::ranges::copy(side.residual.span(), there.returned.span().begin());
      std::ranges::copy(kept, side.residual.span().begin());
      side.bucket->residual_used = true;
      arrived = std::move(there);
    }
  };

  explicit Air(const Sending& as_sent) : sending(as_sent) {}

  const Sending sending;
  std::optional<Seconds> begin = {};  // none: it was restored
  std::size_t lane = 0;
  Energies energies = {};
  OneSide sides[kSides];
  bool stirred = false;  // this rank's buffers, since the last exchange that had them
  Record record;

  std::mutex mutex;
  std::condition_variable changed;
  bool there = false;  // has travelled, or failed

  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return there; });
  }
};

Updates::Updates(Crew& crew, const Options& options, std::vector<std::size_t> parameter_sizes,
                 std::vector<std::size_t> buffer_sizes)
    : crew_(crew),
      options_(options),
      parameters_(std::move(parameter_sizes)),
      buffers_(std::move(buffer_sizes)) {}

Updates::~Updates() { drop_flights(); }

void Updates::drop_flights() {
  for (const auto& air : air_) {
    air->wait();
    for (auto& side : air->sides) side.flight.reset();
  }
  air_.clear();
}

void Updates::forget_base() {
  based_ = false;
  aside_.clear();
  last_sending_.reset();
  waited_ = worked_ = {};
  hashes_.clear();
}

void Updates::rebase(const Model& model) {
  drop_flights();
  forget_base();
  parameters_.read(model.parameters);
  buffers_.read(model.buffers);
  for (Side* side : {&parameters_, &buffers_}) {
    std::ranges::copy(side->now.span(), side->base.span().begin());
    std::ranges::fill(side->residual.span(), 0.0F);
    side->bucket = std::make_unique<exchange::ResidualGroup>(side->residual.span());
  }
  based_ = true;
}

void Updates::return_to_base(const Model& model) {
  require(air_.empty(), "engine: {} exchanges are in flight", air_.size());
  std::ranges::copy(parameters_.base.span(), parameters_.now.span().begin());
  parameters_.write(model.parameters);
}

// A buffer that is not finite in the base (a mask) has no progress: it stays as it is.
void Updates::set_aside(const Model& model) {
  aside_.clear();
  parameters_.read(model.parameters);
  buffers_.read(model.buffers);
  for (std::size_t s = 0; s < kSides; ++s) {
    const std::span<const float> reference = reference_of(side(s), s);
    const auto now = side(s).now.span();
    auto& progress = aside_.emplace_back(now.size(), 0.0F);
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (!std::isfinite(reference[i])) continue;
      progress[i] = now[i] - reference[i];
      now[i] = reference[i];
    }
  }
  parameters_.write(model.parameters);
  buffers_.write(model.buffers);
}

void Updates::take_back(const Model& model) {
  if (aside_.empty()) return;
  parameters_.read(model.parameters);
  buffers_.read(model.buffers);
  for (std::size_t s = 0; s < kSides; ++s) {
    const auto now = side(s).now.span();
    for (std::size_t i = 0; i < now.size(); ++i) now[i] += aside_[s][i];
  }
  aside_.clear();
  parameters_.write(model.parameters);
  buffers_.write(model.buffers);
}

std::span<const float> Updates::reference_of(Side& side, std::size_t which) const {
  if (air_.empty()) return side.base.span();
  std::ranges::copy(side.base.span(), side.reference.span().begin());
  for (const auto& air : air_) air->sides[which].add_own_part(side.reference.span());
  return side.reference.span();
}

void Updates::depart(Side& side, std::size_t which, Air& air) {
  if (side.size() == 0) return;
  const std::span<const float> reference = reference_of(side, which);
  if (which == kBuffers) {
    air.stirred = !std::ranges::equal(side.now.span(), reference);
    if (!air.sending.with_buffers) return;
  }
  if (crew_.journal != nullptr && which == 0)
    air.energies.contribution =
        sampled_energy(side.now.span(), reference, sample_stride(side.size()));
  const plan::Plan& plan = air.sending.plan;
  const exchange::Terms terms{.plan = which == kBuffers ? plan::beside(plan, side.size()) : plan,
                              .round = air.sending.number,
                              .plan_version = air.sending.epoch,
                              .bucket = static_cast<std::uint32_t>(which),
                              .deadline = air.sending.deadline};
  air.sides[which].flight =
      exchange::depart(crew_.lane(launched_).communicator(), *side.bucket, terms,
                       compress::Progress{.parameters = side.now.span(), .reference = reference});
  // Only a plan that lands late trains on: the own part stands in for the average meanwhile.
  if (air.sending.late()) air.sides[which].flight->add_own_part(side.now.span());
}

bool Updates::send(const Model& model, const Sending& sending) {
  require(based_, "engine: updates without a base");
  const auto air = std::make_shared<Air>(sending);
  air->begin = crew_.now();
  air->lane = static_cast<std::size_t>(launched_ % crew_.lanes.size());
  parameters_.read(model.parameters);
  buffers_.read(model.buffers);

  // Infinity minus itself is not a number: entries of buffers that are not finite in the base
  // (masks, say) stay at home. One that has stopped being finite since goes back to the base.
  std::vector<std::size_t> at_home;
  std::vector<std::pair<float, float>> kept;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!std::isfinite(buffers_.base[i])) {
      at_home.push_back(i);
      kept.emplace_back(std::exchange(buffers_.now[i], 0.0F),
                        std::exchange(buffers_.base[i], 0.0F));
    } else if (!std::isfinite(buffers_.now[i])) {
      buffers_.now[i] = buffers_.base[i];
    }
  }

  const bool is_finite = std::isfinite(kernels::energy(parameters_.now.span()));
  depart(parameters_, 0, *air);
  depart(buffers_, kBuffers, *air);
  for (std::size_t j = 0; j < at_home.size(); ++j) {
    buffers_.now[at_home[j]] = kept[j].first;
    buffers_.base[at_home[j]] = kept[j].second;
  }
  if (sending.late() || !is_finite) {
    parameters_.write(model.parameters);
    buffers_.write(model.buffers);
  }

  const Seconds sent = crew_.now();
  worked_ += sent - *air->begin;
  air->record = {.flags = static_cast<std::uint16_t>(sending.flags | (is_finite ? 0 : kNotFinite) |
                                                     (air->stirred ? kStirred : 0)),
                 .epoch = sending.epoch,
                 .step = sending.number,
                 .plan = static_cast<std::uint32_t>(plan::hash(sending.plan)),
                 .rates = sending.rates,
                 .coding = static_cast<float>(std::exchange(worked_, Seconds{}).value)};
  if (last_sending_) {
    air->record.whole = static_cast<float>((sent - *last_sending_).value);
    air->record.exposed = static_cast<float>(std::exchange(waited_, Seconds{}).value);
  }
  last_sending_ = sent;
  if (const auto hash = sending.hashed ? hashes_.find(*sending.hashed) : hashes_.end();
      hash != hashes_.end()) {
    air->record.flags |= kAppliedHashed;
    air->record.applied = hash->second;
    hashes_.erase(hashes_.begin(), std::next(hash));
  }
  air_.push_back(air);
  const std::uint64_t turn = launched_++;
  const bool is_callers = crew_.control_lane == nullptr;  // whose thread it is
  crew_.lane(turn).run([this, air, turn, is_callers](comm::Communicator& communicator) {
    wire_.enter(turn);
    const Seconds began = crew_.now();
    try {
      crew_.failure.check();
      for (std::size_t s = 0; s < kSides; ++s) {
        if (air->sides[s].flight == nullptr) continue;
        air->sides[s].flight->travel(communicator);
        air->record.wire[s] = static_cast<float>(air->sides[s].flight->report().wire.value);
      }
    } catch (...) {
      crew_.failure.note(std::current_exception());
      crew_.records->wake();
    }
    if (crew_.failure.get() == nullptr) crew_.post(air->record);
    if (is_callers) note_wait(crew_.now() - began);
    wire_.leave();
    {
      const std::lock_guard lock(air->mutex);
      air->there = true;
    }
    air->changed.notify_all();
  });
  return is_finite;
}

void Updates::note_wait(Seconds waited) {
  waited_ += waited;
  if (crew_.journal != nullptr) crew_.journal->wait(waited);
}

std::optional<Updates::Sending> Updates::next() const {
  return air_.empty() ? std::nullopt : std::optional(air_.front()->sending);
}

exchange::Report Updates::land_side(Side& side, std::size_t which, Air& air) {
  auto& one = air.sides[which];
  if (side.size() == 0 || (which == kBuffers && !air.sending.with_buffers)) return {};
  const auto own = side.reference.span();
  std::ranges::fill(own, 0.0F);
  if (one.arrived) {
    std::ranges::copy(one.arrived->result.span(), side.result.span().begin());
    one.add_own_part(own);
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    for (std::size_t i = 0; i < side.size(); ++i) {
      if (one.arrived->returned[i] == 0) continue;
      indices.push_back(static_cast<std::uint32_t>(i));
      values.push_back(one.arrived->returned[i]);
    }
    compress::put_back(side.residual.span(), indices, values);
    side.bucket->residual_used = true;
  } else {
    one.add_own_part(own);
    one.report = one.flight->land(side.result.span());
    one.flight.reset();  // here, not on the lane that may hold the exchange a moment longer
  }
  return one.report;
}

exchange::Report Updates::land(const Model& model) {
  const std::shared_ptr<Air> air = air_.front();
  const Seconds came = crew_.now();
  air->wait();
  const Seconds arrived = crew_.now();
  note_wait(arrived - came);
  if (crew_.failure.get() != nullptr) {
    for (std::size_t s = 0; s < kSides; ++s) {
      if (air->sides[s].flight == nullptr) continue;
      air->sides[s].flight->give_back();
      air->sides[s].flight.reset();
    }
    air_.pop_front();
    crew_.failure.check();
  }
  parameters_.check(model.parameters);
  buffers_.check(model.buffers);
  const plan::Plan& plan = air->sending.plan;
  const exchange::Report report = land_side(parameters_, 0, *air);
  const exchange::Report of_buffers = land_side(buffers_, kBuffers, *air);
  const bool buffers_void = of_buffers.is_void;
  air_.pop_front();
  if (options_.adam && !report.is_void) {
    crew_.common_share.note({.result = parameters_.result.span(),
                             .own_part = parameters_.reference.span(),
                             .residual = parameters_.residual.span()},
                            crew_.ranks(), sample_stride(parameters_.size()));
  }

  apply(parameters_, model.parameters, air->sending.late());
  if (report.is_void || buffers_void) {
    std::ranges::fill(buffers_.residual.span(), 0.0F);  // nothing moved: what they had, they have
  } else if (air->sending.with_buffers) {
    apply(buffers_, model.buffers, air->sending.late());
  }
  if (plan.scheme != plan::Scheme::kDense && plan.every == 1 && plan.density <= kClearedUpTo &&
      !report.is_void) {
    const auto own = parameters_.reference.span();
    sent_.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i] != 0) sent_[i] = true;
    }
  }
  crew_.tallies.add(report);
  crew_.tallies.add_beside(of_buffers);
  if (crew_.journal != nullptr && air->begin) tell(*air, report, of_buffers);
  const auto every = static_cast<std::uint64_t>(std::max(options_.check_every, 0));
  if (every > 0 && air->sending.number % every == 0) {
    hashes_[air->sending.number] =
        static_cast<std::uint32_t>(pliant::hash(std::as_bytes(parameters_.base.span())));
  }
  worked_ += crew_.now() - arrived;
  return report;
}

void Updates::tell(Air& air, const exchange::Report& parameters, const exchange::Report& buffers) {
  air.energies.residual =
      sampled_energy(parameters_.residual.span(), sample_stride(parameters_.size()));
  const auto one = [&](std::size_t which, const exchange::Report& report, std::size_t entries) {
    crew_.journal->exchanged(air.sending.number, {.span = {.group = which,
                                                           .lane = air.lane,
                                                           .begin = *air.begin,
                                                           .enter = report.traffic.entered,
                                                           .leave = report.traffic.finished,
                                                           .end = crew_.now(),
                                                           .bytes = report.traffic.sent,
                                                           .entries = entries},
                                                  .report = report,
                                                  .parameters = which == 0,
                                                  .energies = air.energies});
  };
  one(0, parameters, parameters_.size());
  if (air.sending.with_buffers && buffers_.size() > 0) one(kBuffers, buffers, buffers_.size());
  crew_.journal->landed(air.sending.number, {});
}

// base += result; tensors += result - own part, or simply the base where nothing was trained on
// meanwhile. One pass, where the tensors lie: the training thread waits for it.
void Updates::apply(Side& side, Tensors tensors, bool late) {
  std::size_t begin = 0;
  for (const auto& now : tensors) {
    const auto base = side.base.span().subspan(begin, now.size());
    const auto result = side.result.span().subspan(begin, now.size());
    const auto own = side.reference.span().subspan(begin, now.size());
    begin += now.size();
    for (std::size_t i = 0; i < now.size(); ++i) {
      base[i] += result[i];
      if (late) {
        now[i] += result[i] - own[i];
      } else if (std::isfinite(base[i])) {
        now[i] = base[i];
      }
    }
  }
}

void Updates::clear_at_sent(Tensors tensors) const {
  std::size_t begin = 0;
  for (const auto& tensor : tensors) {
    for (std::size_t i = 0; i < tensor.size() && begin + i < sent_.size(); ++i) {
      if (sent_[begin + i]) tensor[i] = 0;
    }
    begin += tensor.size();
  }
}

void Updates::write(State& state) {
  state.residual = parameters_.cut(parameters_.residual.span());
  state.base = parameters_.cut(parameters_.base.span());
  state.buffers = buffers_.cut(buffers_.base.span());
  if (parameters_.bucket->voted) state.voted = {*parameters_.bucket->voted};
  for (const auto& air : air_) {
    air->wait();
    crew_.failure.check();
    State::InFlight saved{.number = air->sending.number,
                          .sent = air->sending.sent,
                          .due = air->sending.due,
                          .plan = to_string(air->sending.plan),
                          .epoch = air->sending.epoch};
    for (std::size_t s = 0; s < kSides; ++s) {
      Side& side = s == 0 ? parameters_ : buffers_;
      auto& one = air->sides[s];
      if (side.size() == 0) continue;
      one.arrive(side);
      saved.is_void = saved.is_void || one.report.is_void;
      const auto append = [&side](auto& to, std::span<const float> flat) {
        std::ranges::move(side.cut(flat), std::back_inserter(to));
      };
      append(saved.result, one.arrived->result.span());
      append(saved.own_part, one.arrived->own_part.span());
      append(saved.returned, one.arrived->returned.span());
    }
    state.in_flight.push_back(std::move(saved));
  }
}

void Updates::read(const State& state) {
  drop_flights();
  forget_base();
  const auto restore = [](Side& side, const std::vector<std::vector<float>>& base,
                          const std::vector<std::vector<float>>& residual) {
    side.join(base, side.base.span());
    if (residual.empty()) {
      std::ranges::fill(side.residual.span(), 0.0F);
    } else {
      side.join(residual, side.residual.span());
    }
    side.bucket = std::make_unique<exchange::ResidualGroup>(side.residual.span());
  };
  restore(parameters_, state.base, state.residual);
  restore(buffers_, state.buffers, {});
  if (!state.voted.empty() && state.voted.front() >= 0)
    parameters_.bucket->voted = state.voted.front();
  for (const State::InFlight& saved : state.in_flight) {
    const auto air =
        std::make_shared<Air>(Sending{.number = saved.number,
                                      .sent = saved.sent,
                                      .due = saved.due,
                                      .plan = plan::parse_plan(saved.plan, "a plan in the state"),
                                      .epoch = saved.epoch});
    std::size_t first = 0;
    for (std::size_t s = 0; s < kSides; ++s) {
      Side& side = s == 0 ? parameters_ : buffers_;
      if (side.size() == 0) continue;
      const auto part = [&](const std::vector<std::vector<float>>& tensors) {
        require(tensors.size() >= first + side.tensors(),
                "engine: a flight of {} tensors in the state, not {}", tensors.size(),
                first + side.tensors());
        const auto begin = tensors.begin() + static_cast<std::ptrdiff_t>(first);
        Buffer<float> flat(side.size());
        side.join({begin, begin + static_cast<std::ptrdiff_t>(side.tensors())}, flat.span());
        return flat;
      };
      air->sides[s].arrived =
          Air::Arrived{part(saved.result), part(saved.own_part), part(saved.returned)};
      air->sides[s].report.is_void = saved.is_void;
      air->sides[s].report.updated_fraction = 0;  // not known any more
      first += side.tensors();
    }
    air->there = true;
    air_.push_back(air);
  }
  based_ = true;
}

std::size_t Updates::in_flight_bytes() const {
  std::size_t dense = 0;
  for (const auto& air : air_) dense += air->sending.plan.scheme == plan::Scheme::kDense ? 1 : 0;
  return dense * parameters_.base.span().size_bytes() * 2;
}

std::size_t Updates::scratch_bytes() const {
  std::size_t bytes = 0;
  for (const Side* side : {&parameters_, &buffers_}) {
    bytes += side->now.span().size_bytes() + side->reference.span().size_bytes() +
             side->result.span().size_bytes() + side->bucket->scratch_bytes();
  }
  return bytes + sent_.size() / 8;
}

}  // namespace pliant::engine
