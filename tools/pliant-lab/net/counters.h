// SPDX-License-Identifier: MIT
// Counters of one direction of one host's link.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tools/pliant-lab/net/time.h"

namespace pliant::lab {

struct Counters {
  std::int64_t packets = 0;  // that passed
  std::int64_t bytes = 0;
  std::int64_t dropped_queue = 0;  // the queue was full
  std::int64_t dropped_loss = 0;   // the loss policy took it; counted where it was sent
  std::int64_t dropped_down = 0;   // link down or blackhole
  Time waited{0};                  // in the queue, summed over packets
  Time waited_longest{0};

  void passed(std::int64_t size, Time wait) {
    packets += 1;
    bytes += size;
    waited += wait;
    waited_longest = std::max(waited_longest, wait);
  }
};

}  // namespace pliant::lab
