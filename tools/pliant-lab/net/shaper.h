// SPDX-License-Identifier: MIT
// Shaper: one direction of a host's link, a drop-tail queue in front of a server. The caller gives
// the time; nothing here waits.
#pragma once

#include <deque>
#include <optional>

#include "tools/pliant-lab/net/packet.h"
#include "tools/pliant-lab/net/queue.h"

namespace pliant::lab {

class Shaper {
 public:
  struct Passed {
    Packet packet;
    Time waited;  // in the queue, before its first bit was served
  };

  void set(Rate rate, QueueLimit limit, Time now);
  // Takes the packet (first_bit and last_bit say when it comes), or hands it back if the queue is
  // full.
  [[nodiscard]] std::optional<Packet> push(Packet packet);
  // When the packet at the head is through; kNever if there is none.
  [[nodiscard]] Time next() const { return queue_.empty() ? kNever : finish_; }
  // The packet that is through at next(), with first_bit and last_bit as it leaves.
  [[nodiscard]] Passed pop();
  [[nodiscard]] std::deque<Packet> drop_all(Time now);
  [[nodiscard]] const Backlog& backlog() const { return backlog_; }

 private:
  void serve_head();

  Server server_;
  QueueLimit limit_;
  std::deque<Packet> queue_;
  Backlog backlog_;
  Time start_{0};   // of the head's service
  Time finish_{0};  // of the head's service, or of the last packet's if the queue is empty
};

}  // namespace pliant::lab
