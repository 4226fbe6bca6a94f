// SPDX-License-Identifier: MIT
#include "pliant/engine/gradients.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <numeric>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/kernels/dense.h"

namespace pliant::engine {
using namespace agree;
using namespace runlog;
using namespace planner;
namespace {

// DDP cuts its buckets anew after the first step, by the order in which gradients became ready: the
// second step's are the ones that stay. Until then each step is exchanged as it was cut, once all
// of it is there.
constexpr std::uint64_t kLastAdopted = 1;

std::vector<int> all_parameters(const Arrangement& arrangement) {
  std::vector<int> all;
  for (const auto& unit : arrangement.units()) all.insert(all.end(), unit.begin(), unit.end());
  return all;
}

double norm_of(std::span<const std::span<float>> pieces) {
  double energy = 0;
  for (const auto& piece : pieces) energy += kernels::energy(piece);
  return std::sqrt(energy);
}

bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

}  // namespace

class Gradients::Waiting {
 public:
  explicit Waiting(Submission submission)
      : submission_(std::move(submission)), missing_(submission_.pieces.size()) {}

  [[nodiscard]] const Submission& submission() const { return submission_; }
  // One more piece has landed: was it the last? Under the step's mutex.
  [[nodiscard]] bool landed() { return --missing_ == 0; }
  void finish(const std::exception_ptr& why) {
    if (finished_.exchange(true)) return;
    if (submission_.done) submission_.done(why);
    submission_.done = nullptr;
    submission_.owner.reset();
  }

 private:
  Submission submission_;
  std::size_t missing_;  // pieces
  std::atomic<bool> finished_ = false;
};

struct Gradients::Step {
  Step(const Record& about, const plan::Plan& in_force, std::size_t parameters)
      : number(about.step),
        plan(in_force),
        epoch(about.epoch),
        pieces(parameters),
        carried(parameters),
        when(parameters),
        waiting(parameters),
        record(about) {}

  const std::uint64_t number;
  const plan::Plan plan;
  const std::uint32_t epoch;
  std::vector<std::span<float>> pieces;  // by parameter
  std::vector<std::span<const float>> carried;
  std::vector<Seconds> when;  // it was submitted
  std::vector<std::shared_ptr<Waiting>> waiting;
  std::optional<Seconds> deadline;  // for each message
  bool flushes = false;             // dense, and a residual goes along
  bool together = true;             // nobody hears of its average before all are there
  bool hashed = false;              // what it applies is compared between ranks
  std::optional<double>
      norm;  // for clip_norm, where all pieces are there before the first group leaves
  std::vector<std::size_t> missing;  // pieces of each group
  std::size_t submitted = 0;
  std::size_t next_group = 0;  // to be dispatched
  Units seen;                  // the frame's buckets
  Seconds last_submitted;

  std::mutex mutex;
  std::condition_variable changed;
  std::size_t dispatched = 0;  // groups; this and the rest: guarded by the mutex, as is `waiting`
  std::size_t applied = 0;     // or failed
  std::size_t groups_left = 0;
  std::vector<double> energies;  // of the gradient, by group, for clip_norm
  std::vector<bool> voids;       // by group
  std::vector<Result> results;   // by group
  Seconds landed;
  Record record;
};

// A parameter that backward did not reach has a gradient of zeros, and if that is so on all ranks
// the frame drops whatever comes back for it. So its residual rests: what is not sent cannot be
// lost.
class Gradients::Resting {
 public:
  Resting(const Arrangement& arrangement, const Group& group, const Step& step,
          std::span<float> residual) {
    if (!group.bucket->residual_used) return;
    for (const int parameter : group.parameters) {
      if (!all_zero(step.pieces[static_cast<std::size_t>(parameter)])) continue;
      const Range place = arrangement.place(parameter);
      const auto span = residual.subspan(place.begin, place.count);
      spans_.push_back({span, {span.begin(), span.end()}});
      std::ranges::fill(span, 0.0F);
    }
  }
  ~Resting() {
    static constexpr float kLargest = std::numeric_limits<float>::max();
    for (const auto& [span, kept] : spans_) {
      std::ranges::transform(span, kept, span.begin(), [](float a, float b) {
        return std::clamp(a + b, -kLargest, kLargest);
      });
    }
  }
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;
  [[nodiscard]] bool any() const { return !spans_.empty(); }

 private:
  struct Span {
    std::span<float> span;
    std::vector<float> kept;
  };
  std::vector<Span> spans_;
};

Gradients::Gradients(Crew& crew, const Options& options, std::vector<std::size_t> parameter_sizes)
    : crew_(crew),
      options_(options),
      sizes_(std::move(parameter_sizes)),
      arrangement_(sizes_, default_units(sizes_)),
      clip_norm_(options.clip_norm) {}

Gradients::~Gradients() = default;

void Gradients::make_residual() {
  if (residual_.size() > 0) return;
  residual_ = Buffer<float>(arrangement_.size());
  std::ranges::fill(residual_.span(), 0.0F);
}

void Gradients::arrange(Arrangement next) {
  groups_.clear();
  fusion_.reset();
  rearrange(arrangement_, next, residual_.span());
  arrangement_ = std::move(next);
}

void Gradients::form_groups(plan::Fusion fusion) {
  if (fusion_ == fusion) return;
  make_residual();
  groups_.clear();
  group_of_.assign(sizes_.size(), 0);
  fusion_ = fusion;
  for (const Range& units : arrangement_.groups(fusion)) {
    Group group{.entries = arrangement_.entries(units)};
    for (std::size_t u = units.begin; u < units.end(); ++u) {
      const auto& parameters = arrangement_.units()[u];
      group.parameters.insert(group.parameters.end(), parameters.begin(), parameters.end());
      for (const int parameter : parameters)
        group_of_[static_cast<std::size_t>(parameter)] = groups_.size();
    }
    group.bucket = std::make_unique<exchange::ResidualGroup>(
        residual_.span().subspan(group.entries.begin, group.entries.count));
    groups_.push_back(std::move(group));
  }
  for (std::size_t g = 0; g < std::min(groups_.size(), voted_.size()); ++g) {
    if (voted_[g] >= 0) groups_[g].bucket->voted = voted_[g];
  }
  voted_.clear();
}

std::vector<std::size_t> Gradients::unit_lengths() const {
  std::vector<std::size_t> lengths;
  for (std::size_t u = 0; u < arrangement_.units().size(); ++u)
    lengths.push_back(arrangement_.entries({u, 1}).count);
  return lengths;
}

void Gradients::begin_step(std::uint64_t number, const plan::Plan& plan, std::uint32_t epoch,
                           std::optional<Seconds> deadline) {
  wait();
  step_ = std::make_shared<Step>(Record{.epoch = epoch, .step = number}, plan, sizes_.size());
  step_->deadline = deadline;
  // What can be void can void the rest. A dense exchange in f32 is handed on as it is, whatever is
  // in it, once there is no residual left that would be lost with it.
  const bool plain = plan.scheme == plan::Scheme::kDense && plan.values == plan::ValueCode::kF32;
  step_->flushes = plain && unsent_;
  step_->together = !plain || unsent_;
  prepare(*step_);

  last_begin_ = std::exchange(begin_, crew_.now());
  if (previous_ != nullptr) {
    step_->record.whole = static_cast<float>((begin_ - last_begin_).value);
    step_->record.exposed =
        static_cast<float>(std::max(0.0, (previous_->landed - previous_->last_submitted).value));
    const std::size_t unit = told_unit(previous_->number, arrangement_.units().size());
    Seconds ready{};
    for (const int parameter : arrangement_.units()[unit])
      ready = std::max(ready, previous_->when[static_cast<std::size_t>(parameter)]);
    step_->record.lead = static_cast<float>((previous_->last_submitted - ready).value);
  }
}

void Gradients::prepare(Step& step) {
  form_groups(step.plan.fuse);
  step.missing.clear();
  for (const Group& group : groups_) step.missing.push_back(group.parameters.size());
  step.groups_left = groups_.size();
  step.results.assign(groups_.size(), {0, 0});
  step.voids.assign(groups_.size(), false);
  step.energies.assign(groups_.size(), 0.0);
  // All groups of the step in which the count of exchanges passes a multiple: one alone might be
  // the same one every time.
  const auto every = static_cast<std::uint64_t>(std::max(options_.check_every, 0));
  step.hashed = every > 0 && exchanges_ / every != (exchanges_ + groups_.size()) / every;

  std::string identity = to_string(step.plan);
  for (const auto& unit : arrangement_.units()) {
    identity += '/';
    for (const int parameter : unit) identity += std::to_string(parameter) + ',';
  }
  step.record.plan = static_cast<std::uint32_t>(pliant::hash(std::string_view(identity)));
}

bool Gradients::submit(Submission submission) {
  const auto step = step_;
  const Seconds now = crew_.now();
  std::vector<int> seen;
  const auto waiting = std::make_shared<Waiting>(std::move(submission));
  for (const Piece& piece : waiting->submission().pieces) {
    const auto p = static_cast<std::size_t>(piece.parameter);
    require(p < sizes_.size(), "engine: parameter {} of {}", piece.parameter, sizes_.size());
    require(piece.gradient.size() == sizes_[p], "engine: {} entries for parameter {}, which has {}",
            piece.gradient.size(), piece.parameter, sizes_[p]);
    const std::lock_guard lock(step->mutex);
    require(step->waiting[p] == nullptr, "engine: parameter {} was submitted twice in step {}",
            piece.parameter, step->number);
    step->waiting[p] = waiting;
    step->pieces[p] = piece.gradient;
    step->carried[p] = piece.carried;
    step->when[p] = now;
    seen.push_back(piece.parameter);
  }
  if (seen.empty()) {
    waiting->finish(nullptr);
    return false;
  }
  step->submitted += seen.size();
  step->seen.push_back(seen);
  step->last_submitted = now;
  const bool last = step->submitted == sizes_.size();
  if (last) {
    previous_ = std::exchange(step_, nullptr);
    if (adopting_ && step->seen != arrangement_.units()) {
      arrange(Arrangement(sizes_, step->seen));
      prepare(*step);
    }
    if (adopting_) {
      seen = all_parameters(arrangement_);
      if (clip_norm_ > 0) step->norm = norm_of(step->pieces);
    }
    adopting_ = adopting_ && step->number < kLastAdopted;
  } else if (adopting_) {
    return false;
  }
  for (const int parameter : seen) --step->missing[group_of_[static_cast<std::size_t>(parameter)]];
  while (step->next_group < groups_.size() && step->missing[step->next_group] == 0)
    dispatch(step, step->next_group++);
  return last;
}

void Gradients::dispatch(const std::shared_ptr<Step>& step, std::size_t group) {
  {
    const std::lock_guard lock(step->mutex);
    ++step->dispatched;
  }
  ++exchanges_;
  const Job job{.group = group, .number = passed_++};
  crew_.lane(job.number).run([this, step, job](comm::Communicator& communicator) {
    exchange(communicator, *step, job);
  });
}

comm::Floats Gradients::assemble(Group& group, Step& step) const {
  const auto piece = [&](std::size_t i) {
    return step.pieces[static_cast<std::size_t>(group.parameters[i])];
  };
  {
    const std::lock_guard lock(step.mutex);
    const auto waiting = [&](std::size_t i) {
      return step.waiting[static_cast<std::size_t>(group.parameters[i])];
    };
    bool together = true;  // side by side, and of one owner
    for (std::size_t i = 1; together && i < group.parameters.size(); ++i)
      together =
          waiting(i) == waiting(0) && piece(i - 1).data() + piece(i - 1).size() == piece(i).data();
    if (together) return {{piece(0).data(), group.entries.count}, waiting(0)->submission().owner};
  }
  if (group.assembled.size() == 0) group.assembled = Buffer<float>(group.entries.count);
  auto to = group.assembled.span().begin();
  for (std::size_t i = 0; i < group.parameters.size(); ++i)
    to = std::ranges::copy(piece(i), to).out;
  return group.assembled;
}

// The norm is this step's where everything is there, and else the last step's: the other groups are
// not there yet.
void Gradients::clip(std::span<float> gradient, Step& step, std::size_t group) {
  if (clip_norm_ <= 0) return;
  const double energy = kernels::energy(gradient);
  {
    const std::lock_guard lock(step.mutex);
    step.energies[group] = energy;
  }
  const double norm = groups_.size() == 1 ? std::sqrt(energy) : step.norm.value_or(last_norm_);
  if (!std::isfinite(norm) || norm <= clip_norm_) return;
  kernels::multiply(gradient, gradient, static_cast<float>(clip_norm_ / norm));
}

void Gradients::exchange(comm::Communicator& communicator, Step& step, const Job& job) {
  bool passed = false;
  try {
    crew_.failure.check();
    apply(communicator, step, job, passed);
  } catch (...) {
    crew_.failure.note(std::current_exception());
  }
  if (!passed) {
    wire_.enter(job.number);
    wire_.leave();
  }
  // Where one void exchange voids the step, nobody hears of its average before all are there. Nor
  // of a failure before all are there or will never be: only then is it certain that no lane works
  // in the same memory.
  std::vector<std::shared_ptr<Waiting>> ready;
  const std::exception_ptr failure = crew_.failure.get();
  {
    const std::lock_guard lock(step.mutex);
    ++step.applied;
    if (failure || step.together) {
      if (step.applied == (failure ? step.dispatched : groups_.size())) ready = step.waiting;
      if (step.applied == groups_.size() && !failure) void_together(step);
    } else {
      for (const int parameter : groups_[job.group].parameters) {
        const auto& waiting = step.waiting[static_cast<std::size_t>(parameter)];
        if (waiting->landed()) ready.push_back(waiting);
      }
    }
  }
  for (const auto& each : ready) {
    if (each != nullptr) each->finish(failure);
  }
  // Whoever heard that the last piece has landed may want to begin the next step: wait() holds it
  // up until here.
  const std::lock_guard lock(step.mutex);
  if (--step.groups_left == 0) finish(step);
  step.changed.notify_all();
}

// One exchange of a step was void, another was not, and the last one is just through: whoever sees
// NaN skips the whole step, so what the other exchanges brought would be lost. It goes to the
// residual instead, the average to everybody's, which adds up to what was sent; and the whole step
// is not a number, alike on all ranks. An earlier average that is skipped with it goes the same
// way.
void Gradients::void_together(Step& step) {
  if (std::ranges::count(step.voids, true) == 0) return;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const int parameter : groups_[g].parameters) {
      const Range place = arrangement_.place(parameter);
      const auto residual = residual_.span().subspan(place.begin, place.count);
      const auto give_back = [&residual](std::span<const float> average) {
        for (std::size_t i = 0; i < average.size(); ++i) {
          if (std::isfinite(residual[i] + average[i])) residual[i] += average[i];
        }
      };
      give_back(step.carried[static_cast<std::size_t>(parameter)]);
      if (step.voids[g]) continue;
      const auto average = step.pieces[static_cast<std::size_t>(parameter)];
      give_back(average);
      std::ranges::fill(average, std::numeric_limits<float>::quiet_NaN());
    }
    groups_[g].bucket->residual_used = true;
  }
}

void Gradients::apply(comm::Communicator& communicator, Step& step, const Job& job, bool& passed) {
  Group& group = groups_[job.group];
  const Seconds begin = crew_.now();
  const comm::Floats floats = assemble(group, step);
  const std::span<float> gradient = floats.data;
  clip(gradient, step, job.group);
  exchange::Report report;
  Energies energies;
  const std::size_t stride = sample_stride(arrangement_.size());
  if (crew_.journal != nullptr) energies.contribution = sampled_energy(gradient, stride);
  {
    const Resting resting(arrangement_, group, step, residual_.span());
    const exchange::Terms terms{.plan = step.plan,
                                .round = step.number,
                                .plan_version = step.epoch,
                                .bucket = static_cast<std::uint32_t>(job.group),
                                .deadline = step.deadline,
                                .flushes = step.flushes};
    const auto flight =
        exchange::depart(communicator, *group.bucket, terms, compress::Gradient{gradient}, floats);
    wire_.enter(job.number);
    passed = true;
    try {
      crew_.failure.check();
      flight->travel(communicator);
    } catch (...) {
      crew_.failure.note(std::current_exception());  // before the next is let through
      wire_.leave();
      flight->give_back();
      throw;
    }
    wire_.leave();
    report = flight->land(gradient);
    if (resting.any()) group.bucket->residual_used = true;
  }
  crew_.tallies.add(report);
  if (gradient.data() == group.assembled.data()) {
    auto from = gradient.begin();
    for (const int parameter : group.parameters) {
      const auto piece = step.pieces[static_cast<std::size_t>(parameter)];
      std::copy_n(from, piece.size(), piece.begin());
      from += static_cast<std::ptrdiff_t>(piece.size());
    }
  }
  if (crew_.journal != nullptr) {
    energies.residual = sampled_energy(group.bucket->residual(), stride);
    crew_.journal->exchanged(
        step.number, {.span = {.group = job.group,
                               .lane = static_cast<std::size_t>(job.number % crew_.lanes.size()),
                               .begin = begin,
                               .enter = report.traffic.entered,
                               .leave = report.traffic.finished,
                               .end = crew_.now(),
                               .bytes = report.traffic.sent,
                               .entries = group.entries.count},
                      .report = report,
                      .energies = energies});
  }
  const std::lock_guard lock(step.mutex);
  step.results[job.group] = {report.updated_fraction, report.aggregate_gain};
  step.voids[job.group] = report.is_void;
  Record& record = step.record;
  record.wire[std::min(job.group, kRecordTimes - 1)] += static_cast<float>(report.wire.value);
  record.coding += static_cast<float>((report.select + report.encode + report.decode).value);
  if (report.is_void) record.flags |= kVoid;
  // Not a number has many bit patterns, and an engine's own all-reduce may mix them: everybody
  // leaves such a result out.
  if (step.hashed && std::isfinite(kernels::energy(gradient))) {
    record.flags |= kAppliedHashed;
    record.applied ^= static_cast<std::uint32_t>(pliant::hash(std::as_bytes(gradient), job.group));
  }
}

void Gradients::finish(Step& step) {
  step.landed = crew_.now();
  const double norm = std::sqrt(std::accumulate(step.energies.begin(), step.energies.end(), 0.0));
  if (std::isfinite(norm)) last_norm_ = norm;  // a void step says nothing of the next
  unsent_ = step.together && (!step.flushes || std::ranges::count(step.voids, true) > 0);
  last_result_ = {0, 0};
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const double share =
        static_cast<double>(groups_[g].entries.count) / static_cast<double>(arrangement_.size());
    last_result_.updated_fraction += share * step.results[g].updated_fraction;
    last_result_.gain += share * step.results[g].gain;
  }
  if (crew_.journal != nullptr)
    crew_.journal->landed(step.number, {std::max(0.0, (step.landed - step.last_submitted).value)});
  if (crew_.failure.get() == nullptr) crew_.post(step.record);
}

void Gradients::wait() {
  if (previous_ == nullptr) return;
  std::unique_lock lock(previous_->mutex);
  previous_->changed.wait(lock, [this] { return previous_->groups_left == 0; });
}

std::size_t Gradients::scratch_bytes() const {
  std::size_t bytes = 0;
  for (const Group& group : groups_)
    bytes += group.assembled.size() * sizeof(float) + group.bucket->scratch_bytes();
  return bytes;
}

void Gradients::rescale(double factor) {
  wait();
  kernels::multiply(residual_.span(), residual_.span(), static_cast<float>(factor));
  last_norm_ *= factor;
}

void Gradients::set_clip_norm(double norm) {
  wait();
  clip_norm_ = norm;
}

void Gradients::forget() {
  wait();
  previous_.reset();
  last_result_ = {.updated_fraction = 0};
}

void Gradients::write(State& state) const {
  state.exchanges = exchanges_;
  state.units = arrangement_.units();
  for (const Group& group : groups_) state.voted.push_back(group.bucket->voted.value_or(-1));
  state.last_norm = last_norm_;
  for (std::size_t p = 0; p < sizes_.size(); ++p) {
    auto& saved = state.residual.emplace_back();
    if (residual_.size() == 0) continue;
    const Range place = arrangement_.place(static_cast<int>(p));
    const auto span = residual_.span().subspan(place.begin, place.count);
    if (!all_zero(span)) saved.assign(span.begin(), span.end());
  }
}

void Gradients::read(const State& state) {
  wait();
  require(state.residual.size() == sizes_.size(),
          "engine: a state of {} parameters for a model of {}", state.residual.size(),
          sizes_.size());
  for (std::size_t p = 0; p < sizes_.size(); ++p) {
    const std::size_t entries = state.residual[p].size();
    require(entries == 0 || entries == sizes_[p],
            "engine: a residual of {} entries for parameter {}, which has {}", entries, p,
            sizes_[p]);
  }
  Arrangement next(sizes_, state.units);
  groups_.clear();
  fusion_.reset();
  arrangement_ = std::move(next);
  adopting_ = state.step <= kLastAdopted;
  exchanges_ = state.exchanges;
  voted_ = state.voted;
  unsent_ = true;
  last_norm_ = state.last_norm;
  residual_ = {};
  if (std::ranges::all_of(state.residual, [](const auto& part) { return part.empty(); })) return;
  make_residual();
  for (std::size_t p = 0; p < sizes_.size(); ++p) {
    std::ranges::copy(state.residual[p], residual_.span().begin() +
                                             static_cast<std::ptrdiff_t>(
                                                 arrangement_.place(static_cast<int>(p)).begin));
  }
}

}  // namespace pliant::engine
