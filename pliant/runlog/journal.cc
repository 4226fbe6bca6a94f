// SPDX-License-Identifier: MIT
#include "pliant/runlog/journal.h"

#include <algorithm>
#include <cmath>

#include "pliant/kernels/dense.h"

namespace pliant::runlog {
namespace {

constexpr std::size_t kBlock = 256;
constexpr std::size_t kSampled = 16'384;

std::optional<double> value(const std::optional<Seconds>& seconds) {
  return seconds ? std::optional(seconds->value) : std::nullopt;
}

template <typename Of>
double over_blocks(std::size_t size, std::size_t stride, Of of) {
  double sum = 0;
  for (std::size_t begin = 0; begin < size; begin += kBlock * stride)
    sum += of(begin, std::min(kBlock, size - begin));
  return sum;
}

}  // namespace

std::size_t sample_stride(std::size_t model_entries) {
  return std::max<std::size_t>(1, model_entries / kSampled);
}

double sampled_energy(std::span<const float> values, std::size_t stride) {
  return over_blocks(values.size(), stride, [&](std::size_t begin, std::size_t count) {
    return kernels::energy(values.subspan(begin, count));
  });
}

double sampled_energy(std::span<const float> values, std::span<const float> minus,
                      std::size_t stride) {
  return over_blocks(values.size(), stride, [&](std::size_t begin, std::size_t count) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + count; ++i) {
      const double difference = static_cast<double>(values[i]) - minus[i];
      sum += difference * difference;
    }
    return sum;
  });
}

// --- one step ---

bool Journal::Open::complete() const {
  return over && std::ranges::all_of(
                     rounds, [](const Round& round) { return round.landed && round.recorded; });
}

Journal::Round* Journal::Open::find(std::uint64_t round) {
  const auto found = std::ranges::find(rounds, round, &Round::number);
  return found == rounds.end() ? nullptr : &*found;
}

void Journal::Open::add(const Exchanged& exchanged) {
  const exchange::Report& report = exchanged.report;
  line.exchanges.push_back(exchanged.span);
  line.bytes += exchanged.span.bytes;
  line.coding += (report.select + report.encode + report.decode).value;
  line.is_void = line.is_void || report.is_void;
  if (!exchanged.parameters) return;
  const auto length = static_cast<double>(exchanged.span.entries);
  updated += report.updated_fraction * length;
  entries += length;
  energy += report.energy;
  kept_energy += report.gain * report.energy;
  energies.contribution += exchanged.energies.contribution;
  energies.residual += exchanged.energies.residual;
}

void Journal::Open::finish() {
  if (entries > 0) {
    line.updated = updated / entries;
    line.gain = energy > 0 ? std::min(kept_energy / energy, 1.0) : 1;
    if (energies.contribution > 0)
      line.residual_ratio = std::sqrt(energies.residual / energies.contribution);
  }
  if (line.whole) line.compute = std::max(0.0, *line.whole - line.exposed - worked.value);
  if (!std::ranges::all_of(rounds, &Round::recorded)) line.seen.reset();
  std::ranges::sort(line.exchanges, {}, [](const LogExchange& exchange) { return exchange.begin; });
}

// --- all of them ---

Journal::Journal(std::unique_ptr<RunLog> log) : log_(std::move(log)) {}

Journal::Open& Journal::current() {
  return open_.empty() || open_.back().over ? early_ : open_.back();
}

Journal::Open* Journal::of(std::uint64_t round) {
  for (Open& step : open_) {
    if (step.find(round) != nullptr) return &step;
  }
  return early_.find(round) != nullptr ? &early_ : nullptr;
}

void Journal::begin_step(Seconds at, const plan::Plan& plan, std::uint32_t epoch) {
  const std::lock_guard lock(mutex_);
  if (!open_.empty() && !open_.back().over) {
    open_.back().line.whole = (at - open_.back().begin).value;
    open_.back().over = true;
  }
  Open step = std::exchange(early_, {});
  step.begin = at;
  step.line.step = begun_++;
  step.line.plan = to_string(plan);
  step.line.epoch = epoch;
  step.line.link = outlook_.link;
  step.line.dense_step = value(outlook_.dense_step);
  open_.push_back(std::move(step));
  write_complete();
}

std::uint64_t Journal::steps() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

std::uint64_t Journal::written() const {
  const std::lock_guard lock(mutex_);
  return sums_.summary.steps;
}

void Journal::send(std::uint64_t round, const plan::Plan& plan, std::uint32_t epoch,
                   const Outlook& outlook) {
  const std::lock_guard lock(mutex_);
  outlook_ = outlook;
  Open& step = current();
  LogStep& line = step.line;
  const bool first = step.rounds.empty();
  step.rounds.push_back({.number = round});
  line.plan = to_string(plan);
  line.epoch = epoch;
  if (!line.round) line.round = round;
  line.link = outlook.link;
  line.dense_step = value(outlook.dense_step);
  if (first) {
    line.predicted = value(outlook.wire);
  } else {
    line.predicted = line.predicted && outlook.wire
                         ? std::optional(*line.predicted + outlook.wire->value)
                         : std::nullopt;
  }
}

void Journal::wait(Seconds waited) {
  const std::lock_guard lock(mutex_);
  Open& step = current();
  step.line.exposed += waited.value;
  step.worked -= waited;  // it is part of what the training thread was busy with
}

void Journal::work(Seconds worked) {
  const std::lock_guard lock(mutex_);
  current().worked += worked;
}

void Journal::exchanged(std::uint64_t round, const Exchanged& exchanged) {
  const std::lock_guard lock(mutex_);
  Open* step = of(round);
  (step != nullptr ? *step : current()).add(exchanged);
}

void Journal::landed(std::uint64_t round, Seconds exposed) {
  const std::lock_guard lock(mutex_);
  Open* step = of(round);
  if (step == nullptr) return;
  step->find(round)->landed = true;
  step->line.exposed += exposed.value;
}

void Journal::recorded(std::uint64_t round, std::span<const Record> records, Bytes sent) {
  const std::lock_guard lock(mutex_);
  Open* step = of(round);
  if (step == nullptr) {
    current().line.control_bytes += sent;
    return;
  }
  step->find(round)->recorded = true;
  step->line.control_bytes += sent;
  step->line.seen = step->line.seen.value_or(0) + on_the_wire(records);
  write_complete();
}

void Journal::write_complete() {
  while (!open_.empty() && open_.front().complete()) write_front();
}

void Journal::write_front() {
  open_.front().finish();
  const LogStep& line = open_.front().line;
  if (log_ != nullptr) log_->write(line);
  LogSummary& summary = sums_.summary;
  summary.plan = line.plan;
  ++summary.steps;
  summary.exchanges += line.exchanges.size();
  summary.bytes += line.bytes;
  summary.control_bytes += line.control_bytes;
  summary.voids += line.is_void ? 1 : 0;
  sums_.whole += line.whole.value_or(0);
  sums_.compute += line.compute.value_or(0);
  sums_.exposed += line.exposed;
  sums_.coding += line.coding;
  sums_.seen += line.seen.value_or(0);
  last_ = std::move(open_.front().line);
  open_.pop_front();
}

void Journal::give_up_landings() {
  const std::lock_guard lock(mutex_);
  for (Open& step : open_) {
    for (Round& round : step.rounds) round.landed = true;
  }
  write_complete();
}

void Journal::flush(bool completed) {
  const std::lock_guard lock(mutex_);
  if (!completed && !open_.empty() && !open_.back().over) open_.pop_back();
  while (!open_.empty()) write_front();
}

std::optional<std::string> Journal::new_failure() {
  if (log_ == nullptr || told_failure_) return std::nullopt;
  auto failure = log_->failure();
  told_failure_ = failure.has_value();
  return failure;
}

std::string Journal::latest() const {
  const std::lock_guard lock(mutex_);
  JsonObject sums;
  sums.put("whole", sums_.whole)
      .put("compute", sums_.compute)
      .put("exposed", sums_.exposed)
      .put("coding", sums_.coding);
  sums.put("seen", sums_.seen);
  JsonObject out;
  if (last_) {
    JsonObject step;
    LogStep line = *last_;
    line.exchanges.clear();
    put(step, line, {});
    out.raw("step", std::move(step).text());
  } else {
    out.raw("step", "null");
  }
  out.raw("summary", to_json(sums_.summary)).raw("sums", std::move(sums).text());
  return std::move(out).text();
}

}  // namespace pliant::runlog
