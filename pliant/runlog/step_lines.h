// SPDX-License-Identifier: MIT
// Step lines under construction: collects the reports of each step's exchanges and returns its line
// once all are known, in the order of steps. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pliant/exchange/terms.h"
#include "pliant/planner/choice.h"
#include "pliant/runlog/run_log.h"

namespace pliant::runlog {

// Sums of squares of this rank's contribution and of its residual, over the same sample of entries.
struct Energies {
  double contribution = 0;
  double residual = 0;
};

struct Exchanged {
  LogExchange span;
  const exchange::Report& report;
  bool parameters = true;  // false: buffers, which do not count in updated, gain and residual
  Energies energies = {};
};

class StepLines {
 public:
  void begin(Seconds at, const plan::Plan& plan, std::uint32_t plan_version, double worth);
  void send(std::uint64_t round, const plan::Plan& plan, std::uint32_t plan_version,
            const planner::Outlook& outlook);
  void wait(Seconds waited);
  void work(Seconds worked);
  void exchanged(std::uint64_t round, const Exchanged& exchanged);
  void landed(std::uint64_t round, Seconds exposed);
  void recorded(std::uint64_t round, double seen_on_the_wire, Bytes sent);
  void give_up_landings();
  void sent_beside(Bytes bytes);

  using Write = std::function<void(const LogStep&)>;
  void write_complete(const Write& write);             // all lines that are complete
  void write_all(const Write& write, bool completed);  // incomplete ones too

  [[nodiscard]] std::uint64_t written() const { return sums_.summary.steps; }
  [[nodiscard]] std::string latest() const;  // JSON: the last line and sums over all

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
    void add(const LogStep& line);
  };

  [[nodiscard]] Open& current();
  [[nodiscard]] Open* of(std::uint64_t round);
  void write_front(const Write& write);

  std::deque<Open> open_;  // oldest first; the last is under way
  Open early_;             // what came before the first step
  std::uint64_t begun_ = 0;
  std::optional<LogStep> last_;
  Sums sums_;
  planner::Outlook outlook_;
};

}  // namespace pliant::runlog
