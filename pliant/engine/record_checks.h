// SPDX-License-Identifier: MIT
// Checks of the control records of all ranks, round by round: disagreement, non-finite progress,
// different learning rates, unchanged buffers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pliant/agree/record.h"
#include "pliant/plan/choices.h"

namespace pliant::engine {

class RecordChecks {
 public:
  // The records of one round, by rank. Throws Disagreement, which names the rank, if the ranks
  // cannot go on together, and Diverged if none of them makes finite progress any more. Returns a
  // warning, or nothing.
  [[nodiscard]] std::optional<std::string> take(std::span<const agree::Record> records,
                                                plan::Kind kind);
  void restart();  // a restored state counts anew

  // Updates: no rank's buffers (masks, tables) have changed for a while, so they need not travel.
  // They travel again once a rank reports a change of its own.
  [[nodiscard]] bool buffers_are_still() const;

 private:
  void note_buffers(std::span<const agree::Record> records);
  void check_progress(std::span<const agree::Record> records);
  [[nodiscard]] std::optional<std::string> check_rates(std::span<const agree::Record> records);

  std::vector<int> not_finite_;    // rounds in a row, by rank
  std::vector<int> finite_since_;  // rounds since a rank was not finite, by rank
  int still_for_ = 0;              // rounds in a row in which no rank's buffers had changed
  bool warned_of_rates_ = false;
};

}  // namespace pliant::engine
