// SPDX-License-Identifier: MIT
#include "pliant/engine/gradient_exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/kernels/dense.h"

namespace pliant::engine {
namespace {

// DDP cuts its buckets anew after its first step of gradients, by the order in which they became
// ready: the second step's are the ones that stay. Until then each step is exchanged as it was cut,
// once all of it is there.
constexpr int kAdoptedSteps = 2;

}  // namespace

GradientExchange::GradientExchange(Services& services, const Options& options,
                                   std::vector<std::size_t> parameter_sizes)
    : services_(services),
      options_(options),
      groups_(std::move(parameter_sizes)),
      flights_(services, groups_, options.clip_norm),
      to_adopt_(kAdoptedSteps) {}

GradientExchange::~GradientExchange() = default;

// --- in the training thread ---

void GradientExchange::begin_step(const Round& round) {
  wait();
  step_ = std::make_shared<GradientStep>(round, groups_.sizes().size());
  // What can be void can void the rest. A dense exchange in f32 is handed on as it is, whatever is
  // in it, once there is no residual left that would be lost with it.
  const bool plain =
      round.plan.scheme == plan::Scheme::kDense && round.plan.values == plan::ValueCode::kF32;
  step_->flushes = plain && unsent_;
  step_->together = !plain || unsent_;
  prepare(*step_);
  time_previous(*step_);
}

void GradientExchange::prepare(GradientStep& step) {
  groups_.form(step.round.plan.fuse);
  step.missing.clear();
  for (std::size_t g = 0; g < groups_.count(); ++g)
    step.missing.push_back(groups_[g].parameters.size());
  GradientStep::Shared& shared = step.shared;
  shared.groups_left = groups_.count();
  shared.results.assign(groups_.count(), {0, 0});
  shared.voids.assign(groups_.count(), false);
  shared.energies.assign(groups_.count(), 0.0);
  // All groups of the step in which the count of exchanges passes a multiple: one alone might be
  // the same one every time.
  const auto every = static_cast<std::uint64_t>(std::max(options_.check_every, 0));
  step.hashed = every > 0 && exchanges_ / every != (exchanges_ + groups_.count()) / every;
  const std::string identity = to_string(step.round.plan) + groups_.identity();
  shared.record.plan = static_cast<std::uint32_t>(pliant::hash(std::string_view(identity)));
}

// A record reports the times of the step before.
void GradientExchange::time_previous(GradientStep& step) {
  const Seconds last_begin = std::exchange(begin_, services_.now());
  const Seconds other_wait = std::exchange(other_wait_, Seconds{});
  if (previous_ == nullptr) return;
  agree::Record& record = step.shared.record;
  const Seconds last = previous_->last_submitted;
  record.whole = static_cast<float>((begin_ - last_begin).value);
  record.exposed =
      static_cast<float>(std::max(0.0, (previous_->shared.landed - last).value) + other_wait.value);
  const std::size_t unit = agree::reported_unit(previous_->round.number, groups_.units().size());
  Seconds ready{};
  for (const int parameter : groups_.units()[unit])
    ready = std::max(ready, previous_->when[static_cast<std::size_t>(parameter)]);
  record.lead = static_cast<float>((last - ready).value);
}

// A pinned schedule, a clip_norm and a residual are the engine's.
bool GradientExchange::caller_may_average() const {
  return step_ != nullptr && !step_->together && !flights_.clip().is_on() &&
         step_->round.plan.reduce == plan::AllReduce::kBackend;
}

bool GradientExchange::submit(Submission submission) {
  const auto step = step_;
  std::vector<int> arrived = collect(*step, std::move(submission));
  if (arrived.empty()) return false;
  const bool last = step->submitted == groups_.sizes().size();
  if (last) previous_ = std::exchange(step_, nullptr);
  if (to_adopt_ > 0) {
    if (!last) return false;
    adopt_units(*step);
    arrived.resize(groups_.sizes().size());
    std::iota(arrived.begin(), arrived.end(), 0);
  }
  for (const int parameter : arrived) --step->missing[groups_.group_of(parameter)];
  while (step->next_group < groups_.count() && step->missing[step->next_group] == 0)
    dispatch(step, step->next_group++);
  return last;
}

// Returns the parameters that the submission has brought.
std::vector<int> GradientExchange::collect(GradientStep& step, Submission submission) {
  const std::vector<std::size_t>& sizes = groups_.sizes();
  const Seconds now = services_.now();
  std::vector<int> arrived;
  const auto pending = std::make_shared<PendingSubmission>(std::move(submission));
  for (const Piece& piece : pending->submission().pieces) {
    const auto p = static_cast<std::size_t>(piece.parameter);
    require(p < sizes.size(), "engine: parameter {} of {}", piece.parameter, sizes.size());
    const bool has_memory = !pending->submission().is_averaged;
    require(piece.gradient.size() == (has_memory ? sizes[p] : 0),
            "engine: {} entries for parameter {}, which has {}", piece.gradient.size(),
            piece.parameter, sizes[p]);
    const std::lock_guard lock(step.shared.mutex);
    require(step.shared.pending[p] == nullptr,
            "engine: parameter {} was submitted twice in step {}", piece.parameter,
            step.round.number);
    step.shared.pending[p] = pending;
    step.pieces[p] = piece.gradient;
    step.carried[p] = piece.carried;
    step.when[p] = now;
    arrived.push_back(piece.parameter);
  }
  if (arrived.empty()) {
    pending->finish(nullptr);
    return arrived;
  }
  step.submitted += arrived.size();
  step.seen.push_back(arrived);
  step.last_submitted = now;
  return arrived;
}

// The first steps: all pieces are there, and the caller's buckets become the units.
void GradientExchange::adopt_units(GradientStep& step) {
  if (step.seen != groups_.units()) {
    groups_.set_units(step.seen);
    prepare(step);
  }
  if (flights_.clip().is_on()) flights_.wait_until_ready(step);
  flights_.clip().take_norm(step);
  --to_adopt_;
}

void GradientExchange::dispatch(const std::shared_ptr<GradientStep>& step, std::size_t group) {
  {
    const std::lock_guard lock(step->shared.mutex);
    ++step->shared.dispatched;
  }
  ++exchanges_;
  const GroupJob job{.group = group, .number = turns_++};
  services_.lane(job.number).run([this, step, job](comm::Communicator& communicator) {
    flights_.run(communicator, *step, job);
    hand_out(*step, job);
  });
}

void GradientExchange::wait() {
  if (previous_ == nullptr) return;
  GradientStep::Shared& shared = previous_->shared;
  std::unique_lock lock(shared.mutex);
  shared.changed.wait(lock, [&shared] { return shared.groups_left == 0; });
}

// --- in a lane ---

// If one void exchange makes the step void, no average is handed out before all are there. Nor is a
// failure before all groups are done or will never start: only then does no lane work in the
// caller's memory any more.
void GradientExchange::hand_out(GradientStep& step, const GroupJob& job) {
  GradientStep::Shared& shared = step.shared;
  std::vector<std::shared_ptr<PendingSubmission>> ready;
  const std::exception_ptr failure = services_.failure.get();
  {
    const std::lock_guard lock(shared.mutex);
    ++shared.applied;
    if (failure || step.together) {
      if (shared.applied == (failure ? shared.dispatched : groups_.count())) ready = shared.pending;
      if (shared.applied == groups_.count() && !failure) void_together(step);
    } else {
      for (const int parameter : groups_[job.group].parameters) {
        const auto& pending = shared.pending[static_cast<std::size_t>(parameter)];
        if (pending->landed()) ready.push_back(pending);
      }
    }
  }
  for (const auto& each : ready) {
    if (each != nullptr) each->finish(failure);
  }
  // A caller that has its last average may begin the next step at once: wait() holds it up until
  // this is done.
  const std::lock_guard lock(shared.mutex);
  if (--shared.groups_left == 0) finish(step);
  shared.changed.notify_all();
}

// One exchange of a step was void, another was not, and the last one is just through. A caller who
// sees NaN skips the whole step, so what the other exchanges brought would be lost. It goes to the
// residual instead: the average to everybody's, which adds up to what was sent. The whole step
// becomes NaN, alike on all ranks. An earlier average that is skipped with it goes the same way.
void GradientExchange::void_together(GradientStep& step) {
  const std::vector<bool>& voids = step.shared.voids;
  if (std::ranges::count(voids, true) == 0) return;
  for (std::size_t g = 0; g < groups_.count(); ++g) {
    for (const int parameter : groups_[g].parameters) {
      const auto residual = groups_.residual_of(parameter);
      const auto give_back = [&residual](std::span<const float> average) {
        for (std::size_t i = 0; i < average.size(); ++i) {
          if (std::isfinite(residual[i] + average[i])) residual[i] += average[i];
        }
      };
      give_back(step.carried[static_cast<std::size_t>(parameter)]);
      if (voids[g]) continue;
      const auto average = step.pieces[static_cast<std::size_t>(parameter)];
      give_back(average);
      std::ranges::fill(average, std::numeric_limits<float>::quiet_NaN());
    }
    groups_[g].residual->residual_used = true;
  }
}

// All groups are done. Under the step's mutex.
void GradientExchange::finish(GradientStep& step) {
  GradientStep::Shared& shared = step.shared;
  shared.landed = services_.now();
  flights_.clip().note_energies(shared.energies);
  unsent_ = step.together && (!step.flushes || std::ranges::count(shared.voids, true) > 0);
  planner::Result result{0, 0};
  for (std::size_t g = 0; g < groups_.count(); ++g) {
    const double share =
        static_cast<double>(groups_[g].entries.count) / static_cast<double>(groups_.entries());
    result.updated_fraction += share * shared.results[g].updated_fraction;
    result.gain += share * shared.results[g].gain;
  }
  last_result_ = result;
  scratch_ = shared.scratch;
  held_ = shared.held * std::min(groups_.count(), services_.lanes.size());
  services_.observer.landed(step.round.number,
                            {std::max(0.0, (shared.landed - step.last_submitted).value)});
  if (services_.failure.get() == nullptr) services_.post(shared.record);
}

// --- between steps ---

void GradientExchange::count_memory(Memory& memory) const {
  memory.residual += groups_.residual().size_bytes();
  memory.in_flight += held_;
  memory.scratch += scratch_;
}

void GradientExchange::rescale(double factor) {
  wait();
  kernels::multiply(groups_.residual(), groups_.residual(), static_cast<float>(factor));
  flights_.clip().rescale(factor);
}

void GradientExchange::set_clip_norm(double norm) {
  wait();
  flights_.clip().set_limit(norm);
}

void GradientExchange::forget_timing() {
  wait();
  previous_.reset();
  last_result_.reset();
  held_ = 0;
}

void GradientExchange::write(State& state) const {
  state.exchanges = exchanges_;
  state.last_norm = flights_.clip().last_norm();
  groups_.write(state);
}

void GradientExchange::read(const State& state) {
  wait();
  groups_.read(state);
  const bool adopted = state.exchanges > 0 && state.step >= kAdoptedSteps;
  to_adopt_ = adopted ? 0 : kAdoptedSteps;
  exchanges_ = state.exchanges;
  unsent_ = true;
  flights_.clip().set_last_norm(state.last_norm);
}

}  // namespace pliant::engine
