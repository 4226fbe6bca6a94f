// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/timeline/player.h"

namespace pliant::lab {

Player::Player(const Timeline& timeline, Time start, bool by_name_only)
    : repeat_(timeline.repeat), lap_start_(start) {
  for (const Phase& phase : timeline.phases) {
    const bool in_lap = phase.at && (!repeat_ || *phase.at < *repeat_);
    if (in_lap && !by_name_only) timed_.push_back(&phase);
  }
}

Time Player::next() const {
  return index_ == timed_.size() ? kNever : lap_start_ + to_time(*timed_[index_]->at);
}

const Phase& Player::take() {
  const Phase& phase = *timed_[index_++];
  if (index_ == timed_.size() && repeat_) skip_to_next_lap();
  return phase;
}

void Player::skip_to_next_lap() {
  index_ = 0;
  lap_start_ += to_time(*repeat_);
}

}  // namespace pliant::lab
