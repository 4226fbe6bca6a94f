// SPDX-License-Identifier: MIT
// Puts together what steps and exchanges tell of themselves, and writes a step's line once it is
// complete: the next step has begun, its exchanges have landed, and everybody's records of them are
// here. Lines keep the order of steps. Any thread may call.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/agree/record.h"
#include "pliant/exchange/terms.h"
#include "pliant/planner/choice.h"
#include "pliant/runlog/run_log.h"

namespace pliant::runlog {

using agree::Record;
using planner::Outlook;

// Sums of squares of this rank's contribution and of what it has not sent, over the same sample of
// entries.
struct Energies {
  double contribution = 0;
  double residual = 0;
};

// Every `stride`-th block of 256 entries, so that a figure for people costs microseconds: about
// 16,384 entries of a whole model, which is all of a small one.
[[nodiscard]] std::size_t sample_stride(std::size_t model_entries);
[[nodiscard]] double sampled_energy(std::span<const float> values, std::size_t stride);
[[nodiscard]] double sampled_energy(std::span<const float> values, std::span<const float> minus,
                                    std::size_t stride);

class Journal {
 public:
  // Without a log nothing is written, and latest() still tells.
  explicit Journal(std::unique_ptr<RunLog> log);

  [[nodiscard]] RunLog* log() { return log_.get(); }

  // -- a step of training: the one that was open is over --
  void begin_step(Seconds at, const plan::Plan& plan, std::uint32_t epoch);
  [[nodiscard]] std::uint64_t steps() const;    // begun
  [[nodiscard]] std::uint64_t written() const;  // of these, steps whose line has been written
  // Of the open step.
  void send(std::uint64_t round, const plan::Plan& plan, std::uint32_t epoch,
            const Outlook& outlook);
  void wait(Seconds waited);  // for an exchange
  void work(Seconds worked);  // of the training thread, for exchanges

  // -- a round, by the step that sent it --
  struct Exchanged {
    LogExchange span;
    const exchange::Report& report;
    bool parameters = true;  // false: buffers, which are no part of updated, gain and residual
    Energies energies = {};
  };
  void exchanged(std::uint64_t round, const Exchanged& exchanged);
  void landed(std::uint64_t round, Seconds exposed);
  void recorded(std::uint64_t round, std::span<const Record> records, Bytes sent);

  // What is in flight will not land.
  void give_up_landings();
  // All lines, with what is known. Of a run that failed, the step under way is left out: it was not
  // completed.
  void flush(bool completed);

  // The first failure of the log itself, once.
  [[nodiscard]] std::optional<std::string> new_failure();

  // The last step that was written, and sums over all that were, as JSON.
  [[nodiscard]] std::string latest() const;

 private:
  struct Round {
    std::uint64_t number = 0;
    bool landed = false;
    bool recorded = false;
  };
  struct Open {
    LogStep line;
    Seconds begin;
    Seconds worked;
    std::vector<Round> rounds;
    double updated = 0;  // entries of results that are not zero
    double entries = 0;
    double energy = 0;       // of accumulated
    double kept_energy = 0;  // of that, sent
    Energies energies;
    bool over = false;

    [[nodiscard]] bool complete() const;
    [[nodiscard]] Round* find(std::uint64_t round);
    void add(const Exchanged& exchanged);
    void finish();
  };
  struct Sums {
    LogSummary summary;
    double whole = 0, compute = 0, exposed = 0, coding = 0, seen = 0;
  };

  [[nodiscard]] Open& current();
  [[nodiscard]] Open* of(std::uint64_t round);
  void write_complete();
  void write_front();

  const std::unique_ptr<RunLog> log_;
  mutable std::mutex mutex_;
  std::deque<Open> open_;  // oldest first; the last is under way
  Open early_;             // what came before the first step
  std::uint64_t begun_ = 0;
  std::optional<LogStep> last_;
  Sums sums_;
  Outlook outlook_;
  bool told_failure_ = false;
};

}  // namespace pliant::runlog
