// SPDX-License-Identifier: MIT
// Player of a timeline: says which phase is due when. It has no clock of its own.
#pragma once

#include "tools/pliant-lab/timeline/timeline.h"

namespace pliant::lab {

class Player {
 public:
  // Phases with a time come at start + at; with `by_name_only` none does.
  Player(const Timeline& timeline, Time start, bool by_name_only);
  [[nodiscard]] Time next() const;    // when the next phase is due; kNever if none is
  [[nodiscard]] const Phase& take();  // that phase, and moves on

 private:
  void skip_to_next_lap();

  std::vector<const Phase*> timed_;
  std::optional<Seconds> repeat_;
  Time lap_start_;
  std::size_t index_ = 0;
};

}  // namespace pliant::lab
