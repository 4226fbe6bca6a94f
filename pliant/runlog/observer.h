// SPDX-License-Identifier: MIT
// Observer of an engine: turns reports of steps and exchanges into lines of the run log.
//
// A step's line is written once it is complete: the next step has begun, its exchanges have landed,
// and all ranks' records of them are here. Lines keep the order of steps. Without a log nothing is
// written, and latest() works if the run is watched; if neither, every call returns at once. So the
// engine reports without asking who listens. Any thread may call.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/agree/records.h"
#include "pliant/exchange/terms.h"
#include "pliant/planner/choice.h"
#include "pliant/runlog/run_log.h"
#include "pliant/runlog/step_lines.h"

namespace pliant::runlog {

class Observer {
 public:
  // Before any other call. `log` may be null.
  void start(std::unique_ptr<RunLog> log, bool watched);

  // -- a step of training --
  // The step that was open is over. `worth`: of the step that begins, in steps of plain DDP.
  void begin_step(Seconds at, const plan::Plan& plan, std::uint32_t plan_version, double worth);
  // The open step sends a round. `outlook` is called only if somebody listens.
  void send_round(std::uint64_t round, const plan::Plan& plan, std::uint32_t plan_version,
                  const std::function<planner::Outlook()>& outlook);
  void waited(Seconds time);  // for an exchange, by the training thread
  void worked(Seconds time);  // of the training thread, for exchanges, waiting included

  // -- a round --
  void exchanged(std::uint64_t round, const Exchanged& exchanged);
  void landed(std::uint64_t round, Seconds exposed);
  void recorded(std::uint64_t round, const agree::Records::Gathered& gathered);
  void give_up_landings();        // what is in flight was dropped
  void sent_beside(Bytes bytes);  // outside exchanges, in the step under way

  // -- a decision --
  enum class From : std::uint8_t { kNextStep, kThisStep };  // the first step it is about
  // Written once for each round, and only if the plan changed or there is a front to show. `brief`:
  // the short sentence about it.
  void decided(std::uint64_t round, std::uint32_t plan_version, const plan::Plan& plan,
               const planner::Choice& choice, From from, std::string_view brief);
  [[nodiscard]] std::uint64_t step_of(From from) const;
  // Steps of training that have begun, also if nobody listens.
  [[nodiscard]] std::uint64_t begun() const { return begun_; }

  [[nodiscard]] bool on() const { return on_; }  // whether somebody listens

  // -- the energy of a sample of entries; 0 if nobody listens --
  [[nodiscard]] double sample(std::span<const float> values, std::size_t model_entries) const;
  [[nodiscard]] double sample(std::span<const float> values, std::span<const float> minus) const;

  // -- the user's own lines; they belong to the last step that has begun --
  void note(std::span<const std::pair<std::string, double>> values);
  void phase(std::string_view name);
  void message(Severity severity, std::string_view text);

  // The last complete step and sums over all complete ones, as one JSON object; empty if nobody
  // listens.
  [[nodiscard]] std::string latest() const;
  // Why the log cannot be written any more: returned once.
  [[nodiscard]] std::optional<std::string> new_failure();
  // Writes all lines with what is known. The step under way of a run that failed is left out: it
  // was not completed.
  void flush(bool completed);
  // The last line. `sums.steps` is filled in here.
  void end(const Ending& ending, LogSummary sums);

 private:
  template <typename Do>
  void with_lines(Do act);  // locked; does nothing if nobody listens
  [[nodiscard]] StepLines::Write writer();
  [[nodiscard]] std::uint64_t last_begun() const;

  bool on_ = false;  // somebody listens
  std::atomic<std::uint64_t> begun_ = 0;
  std::unique_ptr<RunLog> log_;
  mutable std::mutex mutex_;
  StepLines lines_;
  std::optional<plan::Plan> announced_;
  std::optional<std::uint64_t> announced_round_;
  bool told_failure_ = false;
};

}  // namespace pliant::runlog
