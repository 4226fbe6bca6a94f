// SPDX-License-Identifier: MIT
#include "pliant/observe/detector.h"

#include <algorithm>

namespace pliant::observe {
namespace {

void move(double& sum, int& since, double by) {
  sum = std::max(0.0, sum + by);
  since = sum > 0 ? since + 1 : 0;
}

}  // namespace

int Detector::take(double log_ratio, double spread, Slow slow) {
  const double clipped = std::clamp(log_ratio / spread, -kClip, kClip);
  move(state_.slower, state_.slower_for, clipped - kAllowance);
  move(state_.faster, state_.faster_for, -clipped - kAllowance);
  int belong = 0;
  if ((log_ratio >= kSlowerAtOnce && slow == Slow::kMayBeOnce) || log_ratio <= kFasterAtOnce) {
    belong = 1;
  } else if (const double twice = slow == Slow::kMayBeOnce ? kSlowerTwice : kSlowerAtOnce;
             log_ratio >= twice && state_.last >= twice) {
    belong = 2;
  } else if (state_.slower >= kLevel) {
    belong = state_.slower_for;
  } else if (state_.faster >= kLevel) {
    belong = state_.faster_for;
  }
  state_ = belong > 0 ? State{} : state_;
  state_.last = belong > 0 ? 0 : log_ratio;
  return belong;
}

}  // namespace pliant::observe
