// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/net/network.h"

#include <algorithm>

namespace pliant::lab {
namespace {

bool differ(const Travel& a, const Travel& b) { return a.delay != b.delay || a.jitter != b.jitter; }

}  // namespace

Network::Network(int hosts, std::uint64_t seed, Deliver deliver)
    : ports_(static_cast<std::size_t>(hosts)), deliver_(std::move(deliver)) {
  Random seeds(seed);
  for (int i = 0; i < hosts * hosts; ++i) paths_.emplace_back(seeds.bits());
}

// A link that goes down, or a side that becomes a blackhole, loses what waits in its queue.
void Network::set_link(int host, const Link& link, Time now) {
  Port& p = port(host);
  const bool other_delay =
      differ(p.link.out.travel, link.out.travel) || differ(p.link.in.travel, link.in.travel);
  p.link = link;
  p.out.set(link.out.rate, link.out.queue, now);
  p.in.set(link.in.rate, link.in.queue, now);
  if (link.down || link.out.blackhole) drop_queued(p.out, p.sent.dropped_down, now);
  if (link.down || link.in.blackhole) drop_queued(p.in, p.received.dropped_down, now);
  for (int other = 0; other_delay && other < hosts(); ++other) {
    path(host, other).forget_order();
    path(other, host).forget_order();
  }
  watch(2 * host);
  watch(2 * host + 1);
}

void Network::send(Packet packet, Time now) {
  const int from = packet.from;
  Port& p = port(from);
  packet.first_bit = packet.last_bit = now;
  if (p.link.down || p.link.out.blackhole) return drop(std::move(packet), p.sent.dropped_down);
  if (auto refused = p.out.push(std::move(packet)))
    return drop(std::move(*refused), p.sent.dropped_queue);
  if (p.out.backlog().packets == 1) watch(2 * from);
}

Time Network::next_event() const {
  const Time shaper = shaper_events_.empty() ? kNever : shaper_events_.top().at;
  const Time flight = in_flight_.empty() ? kNever : in_flight_.top().at;
  return std::min(shaper, flight);
}

void Network::advance(Time now) {
  while (next_event() <= now) {
    if (!in_flight_.empty() && in_flight_.top().at == next_event()) {
      land();
      continue;
    }
    const ShaperEvent event = shaper_events_.top();
    shaper_events_.pop();
    run_shaper(event);
  }
}

// The heap may hold events that a later change made void: those that no longer match the shaper.
void Network::watch(int shaper_index) {
  const Time at = shaper(shaper_index).next();
  if (at != kNever) shaper_events_.push({at, shaper_index});
}

void Network::run_shaper(const ShaperEvent& event) {
  Shaper& from = shaper(event.shaper);
  if (from.next() != event.at) return;
  Shaper::Passed passed = from.pop();
  watch(event.shaper);
  Port& p = port(event.shaper / 2);
  if (event.shaper % 2 == 0) {
    p.sent.passed(passed.packet.bytes, passed.waited);
    leave(std::move(passed.packet));
  } else {
    p.received.passed(passed.packet.bytes, passed.waited);
    deliver_(std::move(passed.packet));
  }
}

Travel Network::travel(int from, int to) const {
  const Travel& out = port(from).link.out.travel;
  const Travel& in = port(to).link.in.travel;
  Travel worse{std::max(out.delay, in.delay), std::max(out.jitter, in.jitter),
               std::max(out.loss, in.loss), std::max(out.reorder, in.reorder)};
  if (!delays_.empty())
    worse.delay = std::max(worse.delay,
                           delays_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]);
  return worse;
}

void Network::leave(Packet packet) {
  const auto time =
      path(packet.from, packet.to).travel_time(packet.last_bit, travel(packet.from, packet.to));
  auto& dropped = port(packet.from).sent.dropped_loss;
  if (!time) return drop(std::move(packet), dropped);
  packet.first_bit += *time;
  packet.last_bit += *time;
  in_flight_.push({packet.last_bit, order_++, std::move(packet)});
}

void Network::land() {
  // The heap gives only const access to its top; the packet is moved out and the entry removed
  // before anyone looks again.
  Packet packet = std::move(const_cast<InFlight&>(in_flight_.top()).packet);
  in_flight_.pop();
  arrive(std::move(packet));
}

void Network::arrive(Packet packet) {
  const int to = packet.to;
  Port& p = port(to);
  if (p.link.down || p.link.in.blackhole) return drop(std::move(packet), p.received.dropped_down);
  if (auto refused = p.in.push(std::move(packet)))
    return drop(std::move(*refused), p.received.dropped_queue);
  if (p.in.backlog().packets == 1) watch(2 * to + 1);
}

void Network::drop(Packet packet, std::int64_t& counter) {
  counter += 1;
  recycle_(std::move(packet.data));
}

void Network::drop_queued(Shaper& queue, std::int64_t& counter, Time now) {
  for (Packet& packet : queue.drop_all(now)) drop(std::move(packet), counter);
}

void Network::reset_longest_waits() {
  for (Port& p : ports_) p.sent.waited_longest = p.received.waited_longest = Time(0);
}

}  // namespace pliant::lab
