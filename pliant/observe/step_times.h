// SPDX-License-Identifier: MIT
// StepTimes: how long training steps took under the plan in force, as seen by the slowest rank.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/plan/plan.h"

namespace pliant::observe {

class StepTimes {
 public:
  // A round of `steps` training steps took `seconds`. Another plan than that of the round before
  // begins anew.
  void take(const plan::Plan& plan, double seconds, int steps) {
    if (!plan_ || *plan_ != plan) {
      plan_ = plan;
      times_.clear();
      return;  // a round that follows a change of plan also pays for the change
    }
    times_.push_back(seconds / steps);
    if (times_.size() > kKept) times_.pop_front();
  }
  void clear() { *this = {}; }

  [[nodiscard]] const std::optional<plan::Plan>& plan() const { return plan_; }
  [[nodiscard]] int rounds() const { return static_cast<int>(times_.size()); }
  // The median, because a host that others use too delays single steps.
  [[nodiscard]] Seconds of_a_step() const {
    std::vector<double> sorted(times_.begin(), times_.end());
    if (sorted.empty()) return {};
    std::ranges::nth_element(sorted,
                             sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
    return {sorted[sorted.size() / 2]};
  }

 private:
  static constexpr std::size_t kKept = 15;

  std::optional<plan::Plan> plan_;
  std::deque<double> times_;  // seconds of a step, oldest first
};

}  // namespace pliant::observe
