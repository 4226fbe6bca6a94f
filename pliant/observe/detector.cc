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
  const double excess = kExcess * std::max(0.0, spread - kUsualSpread);
  const double at_once = kSlowerAtOnce + excess;
  const double twice = slow == Slow::kMayBeOnce ? kSlowerTwice + excess : at_once;
  const double faster = std::max(kFasterAtOnce, kFasterSpreads * spread);
  int of_new_network = 0;
  if ((log_ratio >= at_once && slow == Slow::kMayBeOnce) || log_ratio <= -faster) {
    of_new_network = 1;
  } else if (log_ratio >= twice && state_.last >= twice) {
    of_new_network = 2;
  } else if (state_.slower >= kLevel) {
    of_new_network = state_.slower_for;
  } else if (state_.faster >= kLevel) {
    of_new_network = state_.faster_for;
  }
  state_ = of_new_network > 0 ? State{} : state_;
  state_.last = of_new_network > 0 ? 0 : log_ratio;
  return of_new_network;
}

}  // namespace pliant::observe
