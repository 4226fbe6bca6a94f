// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/net/shaper.h"

#include <algorithm>

namespace pliant::lab {

std::optional<Packet> Shaper::push(Packet packet) {
  if (!queue_.empty() && !fits(limit_, backlog_, packet.bytes, server_.rate())) return packet;
  backlog_.packets += 1;
  backlog_.bytes += packet.bytes;
  queue_.push_back(std::move(packet));
  if (queue_.size() == 1) serve_head();
  return std::nullopt;
}

// Bits pass through as they come: the head's first bit is served when it is here and the one before
// is through, and its last bit cannot leave before it came. So a path over two links of one rate
// costs the packet's length once, not twice.
void Shaper::serve_head() {
  const Packet& head = queue_.front();
  start_ = std::max(finish_, head.first_bit);
  finish_ = std::max(head.last_bit, server_.finish(start_, static_cast<double>(head.bytes)));
}

Shaper::Passed Shaper::pop() {
  Passed passed{std::move(queue_.front()), Time(0)};
  queue_.pop_front();
  backlog_.packets -= 1;
  backlog_.bytes -= passed.packet.bytes;
  passed.waited = start_ - passed.packet.first_bit;
  passed.packet.first_bit = start_;
  passed.packet.last_bit = finish_;
  if (!queue_.empty()) serve_head();
  return passed;
}

// The part of the head that is not yet through goes on at the new rate.
void Shaper::set(Rate rate, QueueLimit limit, Time now) {
  limit_ = limit;
  if (rate == server_.rate()) return;
  server_ = Server(std::move(rate), now);
  if (queue_.empty() || finish_ <= now) return;
  const double served = start_ >= now ? 0.0
                                      : static_cast<double>((now - start_).count()) /
                                            static_cast<double>((finish_ - start_).count());
  const double left = static_cast<double>(queue_.front().bytes) * (1 - served);
  finish_ = std::max(queue_.front().last_bit, server_.finish(std::max(start_, now), left));
}

std::deque<Packet> Shaper::drop_all(Time now) {
  backlog_ = {};
  finish_ = std::min(finish_, now);
  return std::exchange(queue_, {});
}

}  // namespace pliant::lab
