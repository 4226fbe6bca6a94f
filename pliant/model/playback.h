// SPDX-License-Identifier: MIT
// Playback of a step: priced exchanges on the clocks of compute, lanes and wire.
#pragma once

#include <span>

#include "pliant/common/units.h"
#include "pliant/model/codec.h"

namespace pliant::model {

// One exchange with its price.
struct PricedExchange {
  Codec codec;
  Seconds wire;       // messages and bytes
  double path_bytes;  // on the critical path
  double sent_bytes = 0;
  Seconds ready;

  [[nodiscard]] Seconds travel() const { return wire + codec.travel; }
  [[nodiscard]] Seconds total() const { return wire + codec.total(); }
};

// Time of a step of gradients. `exchanges` are in the order of readiness.
[[nodiscard]] Seconds play_gradients(std::span<const PricedExchange> exchanges, Seconds compute,
                                     int lanes);

// Time of a step of updates, the mean over a long run. `drift` is the share of compute by which a
// hidden exchange takes longer.
struct Rhythm {
  int every = 1;
  int late = 0;
  double drift = 0;
};
[[nodiscard]] Seconds play_updates(const PricedExchange& exchange, Seconds compute, int lanes,
                                   const Rhythm& rhythm);

}  // namespace pliant::model
