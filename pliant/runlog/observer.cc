// SPDX-License-Identifier: MIT
#include "pliant/runlog/observer.h"

#include <algorithm>

#include "pliant/kernels/sampled_energy.h"

namespace pliant::runlog {

void Observer::start(std::unique_ptr<RunLog> log, bool watched) {
  on_ = watched || log != nullptr;
  log_ = std::move(log);
}

template <typename Do>
void Observer::with_lines(Do act) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  act(lines_);
}

StepLines::Write Observer::writer() {
  return [this](const LogStep& line) {
    if (log_ != nullptr) log_->write(line);
  };
}

std::uint64_t Observer::last_begun() const { return std::max<std::uint64_t>(begun(), 1) - 1; }

std::uint64_t Observer::step_of(From from) const {
  return from == From::kThisStep ? last_begun() : begun();
}

void Observer::begin_step(Seconds at, const plan::Plan& plan, std::uint32_t plan_version,
                          double worth) {
  ++begun_;
  with_lines([&](StepLines& lines) {
    lines.begin(at, plan, plan_version, worth);
    lines.write_complete(writer());
  });
}

void Observer::send_round(std::uint64_t round, const plan::Plan& plan, std::uint32_t plan_version,
                          const std::function<planner::Outlook()>& outlook) {
  if (!on_) return;
  const planner::Outlook expected = outlook();
  with_lines([&](StepLines& lines) { lines.send(round, plan, plan_version, expected); });
}

void Observer::waited(Seconds time) {
  with_lines([&](StepLines& lines) { lines.wait(time); });
}

void Observer::worked(Seconds time) {
  with_lines([&](StepLines& lines) { lines.work(time); });
}

void Observer::exchanged(std::uint64_t round, const Exchanged& exchanged) {
  with_lines([&](StepLines& lines) { lines.exchanged(round, exchanged); });
}

void Observer::landed(std::uint64_t round, Seconds exposed) {
  with_lines([&](StepLines& lines) { lines.landed(round, exposed); });
}

void Observer::recorded(std::uint64_t round, const agree::Records::Gathered& gathered) {
  with_lines([&](StepLines& lines) {
    lines.recorded(round, agree::on_the_wire(gathered.records), gathered.sent);
    lines.write_complete(writer());
  });
}

void Observer::give_up_landings() {
  with_lines([&](StepLines& lines) {
    lines.give_up_landings();
    lines.write_complete(writer());
  });
}

void Observer::sent_beside(Bytes bytes) {
  with_lines([&](StepLines& lines) { lines.sent_beside(bytes); });
}

void Observer::decided(std::uint64_t round, std::uint32_t plan_version, const plan::Plan& plan,
                       const planner::Choice& choice, From from, std::string_view brief) {
  if (!on_) return;
  const bool again = std::exchange(announced_round_, round) == round;
  const bool has_front = choice.decision != nullptr && !choice.decision->front.empty();
  if (announced_ == plan && (again || !has_front)) return;
  const auto before = std::exchange(announced_, plan);
  if (log_ == nullptr) return;
  log_->write(LogDecision{.step = step_of(from),
                          .round = round,
                          .epoch = plan_version,
                          .plan = plan,
                          .from = before,
                          .brief = std::string(brief),
                          .reason = choice.reason,
                          .details = choice.decision.get()});
}

double Observer::sample(std::span<const float> values, std::size_t model_entries) const {
  return on_ ? kernels::sampled_energy(values, kernels::sample_stride(model_entries)) : 0;
}

double Observer::sample(std::span<const float> values, std::span<const float> minus) const {
  return on_ ? kernels::sampled_energy(values, minus, kernels::sample_stride(values.size())) : 0;
}

void Observer::note(std::span<const std::pair<std::string, double>> values) {
  if (log_ != nullptr) log_->note(last_begun(), values);
}

void Observer::phase(std::string_view name) {
  if (log_ != nullptr) log_->phase(begun(), name);
}

void Observer::message(Severity severity, std::string_view text) {
  if (log_ != nullptr) log_->message(severity, text);
}

std::string Observer::latest() const {
  if (!on_) return {};
  const std::lock_guard lock(mutex_);
  return lines_.latest();
}

std::optional<std::string> Observer::new_failure() {
  if (log_ == nullptr || told_failure_) return std::nullopt;
  auto failure = log_->failure();
  told_failure_ = failure.has_value();
  return failure;
}

void Observer::flush(bool completed) {
  with_lines([&](StepLines& lines) { lines.write_all(writer(), completed); });
}

void Observer::end(const Ending& ending, LogSummary sums) {
  if (log_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    sums.steps = lines_.written();
  }
  log_->end(sums.steps, ending, sums);
}

}  // namespace pliant::runlog
