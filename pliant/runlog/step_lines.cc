// SPDX-License-Identifier: MIT
#include "pliant/runlog/step_lines.h"

#include <algorithm>
#include <cmath>

namespace pliant::runlog {
namespace {

std::optional<double> value(const std::optional<Seconds>& seconds) {
  return seconds ? std::optional(seconds->value) : std::nullopt;
}

}  // namespace

// --- one step ---

bool StepLines::Open::complete() const {
  return over && std::ranges::all_of(
                     rounds, [](const Round& round) { return round.landed && round.recorded; });
}

StepLines::Round* StepLines::Open::find(std::uint64_t round) {
  const auto found = std::ranges::find(rounds, round, &Round::number);
  return found == rounds.end() ? nullptr : &*found;
}

void StepLines::Open::add(const Exchanged& exchanged) {
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

void StepLines::Open::finish() {
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

StepLines::Open& StepLines::current() {
  return open_.empty() || open_.back().over ? early_ : open_.back();
}

StepLines::Open* StepLines::of(std::uint64_t round) {
  for (Open& step : open_) {
    if (step.find(round) != nullptr) return &step;
  }
  return early_.find(round) != nullptr ? &early_ : nullptr;
}

void StepLines::begin(Seconds at, const plan::Plan& plan, std::uint32_t plan_version,
                      double worth) {
  if (!open_.empty() && !open_.back().over) {
    open_.back().line.whole = (at - open_.back().begin).value;
    open_.back().over = true;
  }
  Open step = std::exchange(early_, {});
  step.begin = at;
  step.line.step = begun_++;
  step.line.plan = to_string(plan);
  step.line.epoch = plan_version;
  step.line.link = outlook_.link;
  step.line.dense_step = value(outlook_.dense_step);
  step.line.worth = worth;
  open_.push_back(std::move(step));
}

void StepLines::send(std::uint64_t round, const plan::Plan& plan, std::uint32_t plan_version,
                     const planner::Outlook& outlook) {
  outlook_ = outlook;
  Open& step = current();
  LogStep& line = step.line;
  const bool first = step.rounds.empty();
  step.rounds.push_back({.number = round});
  line.plan = to_string(plan);
  line.epoch = plan_version;
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

void StepLines::wait(Seconds waited) {
  Open& step = current();
  step.line.exposed += waited.value;
  step.worked -= waited;  // work() counts it too
}

void StepLines::work(Seconds worked) { current().worked += worked; }

void StepLines::exchanged(std::uint64_t round, const Exchanged& exchanged) {
  Open* step = of(round);
  (step != nullptr ? *step : current()).add(exchanged);
}

void StepLines::landed(std::uint64_t round, Seconds exposed) {
  Open* step = of(round);
  if (step == nullptr) return;
  step->find(round)->landed = true;
  step->line.exposed += exposed.value;
}

void StepLines::recorded(std::uint64_t round, double seen_on_the_wire, Bytes sent) {
  Open* step = of(round);
  if (step == nullptr) {
    current().line.control_bytes += sent;
    return;
  }
  step->find(round)->recorded = true;
  step->line.control_bytes += sent;
  step->line.seen = step->line.seen.value_or(0) + seen_on_the_wire;
}

void StepLines::give_up_landings() {
  for (Open& step : open_) {
    for (Round& round : step.rounds) round.landed = true;
  }
}

void StepLines::sent_beside(Bytes bytes) { current().line.bytes += bytes; }

void StepLines::write_complete(const Write& write) {
  while (!open_.empty() && open_.front().complete()) write_front(write);
}

void StepLines::write_all(const Write& write, bool completed) {
  if (!completed && !open_.empty() && !open_.back().over) open_.pop_back();
  while (!open_.empty()) write_front(write);
}

void StepLines::write_front(const Write& write) {
  open_.front().finish();
  last_ = std::move(open_.front().line);
  open_.pop_front();
  write(*last_);
  sums_.add(*last_);
}

void StepLines::Sums::add(const LogStep& line) {
  summary.plan = line.plan;
  ++summary.steps;
  summary.exchanges += line.exchanges.size();
  summary.bytes += line.bytes;
  summary.control_bytes += line.control_bytes;
  summary.voids += line.is_void ? 1 : 0;
  whole += line.whole.value_or(0);
  compute += line.compute.value_or(0);
  exposed += line.exposed;
  coding += line.coding;
  seen += line.seen.value_or(0);
}

std::string StepLines::latest() const {
  JsonObject sums;
  sums.put("whole", sums_.whole).put("compute", sums_.compute);
  sums.put("exposed", sums_.exposed).put("coding", sums_.coding).put("seen", sums_.seen);
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
