// SPDX-License-Identifier: MIT
#include "pliant/planner/plan_history.h"

namespace pliant::planner {

bool PlanHistory::is_last(std::uint64_t round) const {
  return !rounds_.empty() && rounds_.back().number == round;
}

PlanHistory::Begun PlanHistory::begin(std::uint64_t round) {
  if (rounds_.empty() || rounds_.back().number < round) return Begun::kNext;
  rounds_.clear();
  return Begun::kAgain;
}

std::int64_t PlanHistory::steps_of_last() const {
  if (rounds_.empty()) return 0;
  const plan::Plan& plan = rounds_.back().plan;
  return plan.kind == plan::Kind::kUpdates ? plan.every : 1;
}

void PlanHistory::note_ran(std::uint64_t round, const plan::Plan& plan) {
  if (is_last(round)) rounds_.back().plan = plan;
}

// The last round stays: is_last() looks at it.
std::optional<PlanHistory::Taken> PlanHistory::take(std::uint64_t round) {
  std::optional<Round> previous;
  while (!rounds_.empty() && rounds_.front().number < round) {
    previous = rounds_.front();
    if (rounds_.size() == 1) break;
    rounds_.pop_front();
  }
  if (rounds_.empty() || rounds_.front().number != round) return std::nullopt;
  return Taken{rounds_.front(), previous};
}

}  // namespace pliant::planner
