// SPDX-License-Identifier: MIT
#include "pliant/engine/gradient_flights.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "pliant/common/hash.h"
#include "pliant/exchange/flight.h"
#include "pliant/kernels/dense.h"

namespace pliant::engine {

void GradientFlights::run(comm::Communicator& communicator, GradientStep& step,
                          const GroupJob& job) {
  Turnstile::Turn turn(wire_, job.number);
  try {
    services_.failure.check();
    exchange_group(communicator, step, job, turn);
  } catch (...) {
    services_.failure.note(std::current_exception());
  }
}

void GradientFlights::exchange_group(comm::Communicator& communicator, GradientStep& step,
                                     const GroupJob& job, Turnstile::Turn& turn) {
  GradientGroup& group = groups_[job.group];
  const Seconds begin = services_.now();
  if (is_averaged(group, step)) return follow(step, job, turn);
  wait_until_ready(group, step);
  const comm::Floats floats = assemble(group, step);
  const std::span<float> gradient = floats.data;
  clip_.apply(gradient, step, job.group);
  runlog::Energies energies{.contribution = services_.observer.sample(gradient, groups_.entries())};
  const exchange::Report report = fly(communicator, step, job, floats, turn);
  services_.tallies.add(report);
  if (gradient.data() == group.assembled.data()) {
    auto from = gradient.begin();
    for (const int parameter : group.parameters) {
      const auto piece = step.pieces[static_cast<std::size_t>(parameter)];
      std::copy_n(from, piece.size(), piece.begin());
      from += static_cast<std::ptrdiff_t>(piece.size());
    }
  }
  energies.residual = services_.observer.sample(group.residual->residual(), groups_.entries());
  services_.observer.exchanged(
      step.round.number,
      {.span = {.group = job.group,
                .lane = static_cast<std::size_t>(job.number % services_.lanes.size()),
                .begin = begin,
                .enter = report.traffic.entered,
                .leave = report.traffic.finished,
                .end = services_.now(),
                .bytes = report.traffic.sent,
                .entries = group.entries.count},
       .report = report,
       .energies = energies});
  record(step, job, report, gradient);
}

bool GradientFlights::is_averaged(const GradientGroup& group, GradientStep& step) const {
  const std::lock_guard lock(step.shared.mutex);
  const auto first = static_cast<std::size_t>(group.parameters.front());
  return step.shared.pending[first]->submission().is_averaged;
}

void GradientFlights::wait_until_ready(GradientStep& step) const {
  for (std::size_t g = 0; g < groups_.count(); ++g) wait_until_ready(groups_[g], step);
}

void GradientFlights::wait_until_ready(const GradientGroup& group, GradientStep& step) const {
  std::vector<std::shared_ptr<PendingSubmission>> pending;
  {
    const std::lock_guard lock(step.shared.mutex);
    for (const int parameter : group.parameters) {
      const auto& one = step.shared.pending[static_cast<std::size_t>(parameter)];
      if (pending.empty() || pending.back() != one) pending.push_back(one);
    }
  }
  for (const auto& one : pending) {
    if (one->submission().ready) one->submission().ready();
  }
}

// The caller averages this group. Its all-reduces are through one after the other, and what is
// known of one is when it was submitted and when it was through.
void GradientFlights::follow(GradientStep& step, const GroupJob& job, Turnstile::Turn& turn) {
  const GradientGroup& group = groups_[job.group];
  turn.enter();
  services_.failure.check();
  Seconds submitted{};
  for (const int parameter : group.parameters)
    submitted = std::max(submitted, step.when[static_cast<std::size_t>(parameter)]);
  const Seconds began = std::max(submitted, followed_);
  wait_until_ready(group, step);
  followed_ = services_.now();
  turn.leave();
  const auto ranks = static_cast<std::size_t>(services_.ranks());
  exchange::Report report;
  report.kept = group.entries.count;
  report.traffic = {.entered = began,
                    .finished = followed_,
                    .sent = {static_cast<std::int64_t>(2 * group.entries.count * sizeof(float) *
                                                       (ranks - 1) / ranks)},
                    .messages = 1};
  report.wire = followed_ - began;
  services_.tallies.add(report);
  services_.observer.exchanged(
      step.round.number,
      {.span = {.group = job.group,
                .lane = static_cast<std::size_t>(job.number % services_.lanes.size()),
                .begin = began,
                .enter = began,
                .leave = followed_,
                .end = followed_,
                .bytes = report.traffic.sent,
                .entries = group.entries.count},
       .report = report});
  GradientStep::Shared& shared = step.shared;
  const std::lock_guard lock(shared.mutex);
  shared.results[job.group] = {1, 1};
  shared.record.wire[std::min(job.group, agree::kRecordTimes - 1)] +=
      static_cast<float>(report.wire.value);
}

// Departs, travels when it is this job's turn on the wire, and lands in the gradient's place.
exchange::Report GradientFlights::fly(comm::Communicator& communicator, GradientStep& step,
                                      const GroupJob& job, const comm::Floats& gradient,
                                      Turnstile::Turn& turn) {
  GradientGroup& group = groups_[job.group];
  ResidualHold hold;
  if (group.residual->residual_used) {
    for (const int parameter : group.parameters) {
      if (all_zero(step.pieces[static_cast<std::size_t>(parameter)]))
        hold.hold(groups_.residual_of(parameter));
    }
  }
  const exchange::Terms terms{.plan = step.round.plan,
                              .round = step.round.number,
                              .plan_version = step.round.plan_version,
                              .bucket = static_cast<std::uint32_t>(job.group),
                              .deadline = step.round.deadline,
                              .flushes = step.flushes};
  const auto flight = exchange::depart(communicator, *group.residual, terms,
                                       compress::Gradient{gradient.data}, gradient);
  turn.enter();
  try {
    services_.failure.check();
    flight->travel(communicator);
  } catch (...) {
    services_.failure.note(std::current_exception());  // before the next turn
    flight->give_back();
    throw;
  }
  turn.leave();
  const exchange::Report report = flight->land(gradient.data);
  if (hold.any()) group.residual->residual_used = true;
  return report;
}

comm::Floats GradientFlights::assemble(GradientGroup& group, GradientStep& step) const {
  const auto piece = [&](std::size_t i) {
    return step.pieces[static_cast<std::size_t>(group.parameters[i])];
  };
  {
    const std::lock_guard lock(step.shared.mutex);
    const auto pending = [&](std::size_t i) {
      return step.shared.pending[static_cast<std::size_t>(group.parameters[i])];
    };
    bool together = true;  // side by side, and of one owner
    for (std::size_t i = 1; together && i < group.parameters.size(); ++i)
      together =
          pending(i) == pending(0) && piece(i - 1).data() + piece(i - 1).size() == piece(i).data();
    if (together) return {{piece(0).data(), group.entries.count}, pending(0)->submission().owner};
  }
  if (group.assembled.size() == 0) group.assembled = Buffer<float>(group.entries.count);
  auto to = group.assembled.span().begin();
  for (std::size_t i = 0; i < group.parameters.size(); ++i)
    to = std::ranges::copy(piece(i), to).out;
  return group.assembled;
}

void GradientFlights::record(GradientStep& step, const GroupJob& job,
                             const exchange::Report& report, std::span<const float> applied) {
  GradientStep::Shared& shared = step.shared;
  const std::lock_guard lock(shared.mutex);
  shared.results[job.group] = {report.updated_fraction, report.aggregate_gain};
  shared.voids[job.group] = report.is_void;
  shared.scratch += groups_[job.group].scratch_bytes();
  shared.held = std::max(shared.held, report.held);
  agree::Record& record = shared.record;
  record.wire[std::min(job.group, agree::kRecordTimes - 1)] +=
      static_cast<float>(report.wire.value);
  record.coding += static_cast<float>((report.select + report.encode + report.decode).value);
  if (report.is_void) record.flags |= agree::kVoid;
  // NaN has many bit patterns, and a backend's own all-reduce may mix them: all ranks leave such a
  // result out.
  if (step.hashed && std::isfinite(kernels::energy(applied))) {
    record.flags |= agree::kAppliedHashed;
    record.applied ^= static_cast<std::uint32_t>(pliant::hash(std::as_bytes(applied), job.group));
  }
}

// --- clipping ---

void GradientClip::take_norm(GradientStep& step) const {
  if (limit_ <= 0) return;
  double energy = 0;
  for (const auto& piece : step.pieces) energy += kernels::energy(piece);
  step.norm = std::sqrt(energy);
}

void GradientClip::apply(std::span<float> gradient, GradientStep& step, std::size_t group) const {
  if (limit_ <= 0) return;
  const double energy = kernels::energy(gradient);
  bool whole = false;
  {
    const std::lock_guard lock(step.shared.mutex);
    step.shared.energies[group] = energy;
    whole = step.shared.energies.size() == 1;
  }
  const double norm = whole ? std::sqrt(energy) : step.norm.value_or(last_norm_);
  if (!std::isfinite(norm) || norm <= limit_) return;
  kernels::multiply(gradient, gradient, static_cast<float>(limit_ / norm));
}

void GradientClip::note_energies(std::span<const double> energies) {
  const double norm = std::sqrt(std::accumulate(energies.begin(), energies.end(), 0.0));
  if (std::isfinite(norm)) last_norm_ = norm;  // a void step says nothing of the next
}

}  // namespace pliant::engine
