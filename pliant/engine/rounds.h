// SPDX-License-Identifier: MIT
// Rounds that all ranks count together: one step of gradients, or one exchange of updates.
//
// Opening a round takes in all ranks' records of earlier rounds, lets the planner choose, and puts
// the choice in force. Every rank opens the same rounds from the same records, so all ranks run the
// same plan. Called by the training thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pliant/engine/options.h"
#include "pliant/engine/record_checks.h"
#include "pliant/engine/services.h"
#include "pliant/planner/planner.h"

namespace pliant::engine {

struct Round {
  std::uint64_t number = 0;
  plan::Plan plan;
  std::uint32_t plan_version = 0;
  // The plan sends everything unsent (a flush), because the next round is of the other kind.
  bool changes_kind = false;
  // Updates: the plan lands results sooner than the plan before it, whose exchanges land first.
  bool lands_sooner = false;
  std::optional<Seconds> deadline = {};        // for each message
  std::optional<std::uint64_t> compared = {};  // updates: the round whose base ranks compare
};

class Rounds {
 public:
  Rounds(Services& services, const Options& options) : services_(services), options_(options) {}

  // From the next round on.
  void set_planner(std::unique_ptr<planner::Planner> planner) { planner_ = std::move(planner); }
  [[nodiscard]] planner::Planner& planner() const { return *planner_; }

  // The round that all ranks come to next. Asked again before sent(), it is the same round.
  [[nodiscard]] Round open(plan::Kind kind);
  // All of the opened round is on its way: the next one may be opened.
  void sent() { ++number_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }  // of the next round

  // The plan of the round that comes next, chosen before it is opened: updates train towards it.
  [[nodiscard]] plan::Plan choose_ahead();
  // In force for a step that begins now: the plan chosen ahead, else the one in force.
  [[nodiscard]] plan::Plan coming_plan() const { return ahead_ ? *ahead_ : plan(); }
  [[nodiscard]] std::uint32_t version_of(const plan::Plan& next) const {
    return plan_ && plan_ != next ? version_ + 1 : version_;
  }

  // A step of training begins or ends; the plan in force says what it is worth.
  void count_step() { effective_steps_ += worth_; }
  [[nodiscard]] double worth() const { return worth_; }  // of a step under the plan in force
  [[nodiscard]] double effective_steps() const { return effective_steps_; }

  [[nodiscard]] plan::Plan plan() const;  // in force
  [[nodiscard]] std::uint32_t plan_version() const { return version_; }
  // The last few, oldest first: short sentences, and whole plans with long reasons.
  [[nodiscard]] std::vector<std::string> decisions() const;
  [[nodiscard]] std::vector<std::string> reasons() const;
  [[nodiscard]] bool buffers_are_still() const { return checks_.buffers_are_still(); }

  // The same on all ranks; goes to the planner together with the round's records.
  void set_result(std::uint64_t round, const planner::Result& result) { results_[round] = result; }
  // Updates: the ranks that were not settling in the last round that was sent.
  [[nodiscard]] std::vector<int> not_settled();

  void write(State& state) const;
  void restore(const State& state);
  // Reports the records of rounds that nobody will take in any more.
  void report_the_rest();

 private:
  [[nodiscard]] planner::Choice choose();
  void take_in(std::uint64_t until);  // the records of all rounds before `until`
  void adopt(const plan::Plan& plan, const planner::Choice& choice, plan::Kind kind);
  // Reports the choice to the run log. A change of plan gets its sentence when it is first seen.
  void announce(const plan::Plan& plan, const planner::Choice& choice, runlog::Observer::From from);

  // The last change of the plan, in words.
  struct News {
    std::optional<plan::Plan> plan;  // that it changed to
    std::optional<plan::Link> link;  // as measured then
    bool was_flush = false;
    std::uint64_t round = 0;
    std::uint64_t step = 0;  // of this rank, as in the run log
    std::string brief;
  };
  struct Told {
    std::string brief, full;
  };

  Services& services_;
  const Options& options_;
  std::unique_ptr<planner::Planner> planner_;
  RecordChecks checks_;
  std::optional<plan::Plan> plan_;   // in force
  std::optional<plan::Plan> ahead_;  // chosen ahead
  std::uint32_t version_ = 0;
  double worth_ = 1;
  double effective_steps_ = 0;
  std::uint64_t number_ = 0;                   // of the next round
  std::uint64_t taken_ = 0;                    // records of earlier rounds have been taken in
  std::map<std::uint64_t, plan::Plan> plans_;  // of rounds whose records are to come
  std::map<std::uint64_t, planner::Result> results_;  // of the same rounds
  News news_;
  std::deque<Told> told_;
};

}  // namespace pliant::engine
