// SPDX-License-Identifier: MIT
// PlanHistory: plans of the rounds whose records have not been read yet, and of the round before
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "pliant/plan/plan.h"

namespace pliant::planner {

class PlanHistory {
 public:
  struct Round {
    std::uint64_t number;
    std::int64_t step;  // training steps before it
    plan::Plan plan;
  };

  // Whether `round` is the last one that was added.
  [[nodiscard]] bool is_last(std::uint64_t round) const;

  // A round is about to be added. If it is earlier than the last one, a state was restored and all
  // rounds are forgotten.
  enum class Begun { kNext, kAgain };
  Begun begin(std::uint64_t round);
  void add(const Round& round) { rounds_.push_back(round); }

  // Training steps under the last round's plan: `every` for updates; 0 if there is no round.
  [[nodiscard]] std::int64_t steps_of_last() const;

  // The last round ran another plan than was added.
  void note_ran(std::uint64_t round, const plan::Plan& plan);

  struct Taken {
    Round round;
    std::optional<Round> previous;  // the round before it
  };
  // The round whose records have come, which ends all rounds before it; nullopt if it is not known.
  [[nodiscard]] std::optional<Taken> take(std::uint64_t round);

  void clear() { rounds_.clear(); }

 private:
  std::deque<Round> rounds_;
};

}  // namespace pliant::planner
