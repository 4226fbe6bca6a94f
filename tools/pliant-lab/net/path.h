// SPDX-License-Identifier: MIT
// Path between two hosts: loss, delay with jitter, and reordering. Rate and queue are the links'.
#pragma once

#include <optional>

#include "tools/pliant-lab/net/random.h"
#include "tools/pliant-lab/net/time.h"

namespace pliant::lab {

struct Travel {
  Seconds delay{};
  Seconds jitter{};  // uniform, as much to either side of the delay
  double loss = 0;   // fraction of packets
  double reorder =
      0;  // fraction of packets that travel without the delay and so overtake those before them
};

class Path {
 public:
  explicit Path(std::uint64_t seed = 0) : random_(seed) {}
  // Travel time of a packet that leaves at `departure`; nullopt if it is lost. Packets
  // keep their order unless one is picked to overtake.
  [[nodiscard]] std::optional<Time> travel_time(Time departure, const Travel& travel);
  // After a change of the delay a new packet may overtake older ones: the change is in force at
  // once.
  void forget_order() { last_arrival_ = Time(0); }

 private:
  [[nodiscard]] bool lost(double fraction) { return fraction > 0 && random_.uniform() < fraction; }
  [[nodiscard]] bool overtakes(double fraction) {
    return fraction > 0 && random_.uniform() < fraction;
  }
  [[nodiscard]] Time jittered(const Travel& travel);

  Random random_;
  Time last_arrival_{0};
};

}  // namespace pliant::lab
