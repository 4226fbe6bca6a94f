// SPDX-License-Identifier: MIT
// Emulated network without clock or I/O: packets and changes go in with a time, packets come out
// with theirs.
//
// A packet passes the sender's outgoing shaper, then the path (loss, delay), then the receiver's
// incoming shaper. Where both ends have a say (delay, jitter, loss, reordering), the worse end
// counts: with the same link on every host, any two of them see exactly that link between them.
// Everything happens at its ideal time: calling late delivers late, but does not slow the network
// down.
#pragma once

#include <functional>
#include <queue>
#include <vector>

#include "tools/pliant-lab/net/counters.h"
#include "tools/pliant-lab/net/link.h"
#include "tools/pliant-lab/net/shaper.h"

namespace pliant::lab {

using DelayMatrix = std::vector<std::vector<Seconds>>;  // [from][to]; empty: none

class Network {
 public:
  // Called with each packet that arrives; its last_bit is when it should have been there.
  using Deliver = std::function<void(Packet)>;

  Network(int hosts, std::uint64_t seed, Deliver deliver);

  [[nodiscard]] int hosts() const { return static_cast<int>(ports_.size()); }
  [[nodiscard]] const Link& link(int host) const { return port(host).link; }
  [[nodiscard]] const Counters& sent(int host) const { return port(host).sent; }
  [[nodiscard]] const Counters& received(int host) const { return port(host).received; }
  [[nodiscard]] Backlog out_backlog(int host) const { return port(host).out.backlog(); }
  [[nodiscard]] Backlog in_backlog(int host) const { return port(host).in.backlog(); }

  void set_link(int host, const Link& link, Time now);
  void set_delays(DelayMatrix delays) {
    delays_ = std::move(delays);
  }  // at least these, between these hosts

  void send(Packet packet, Time now);     // from packet.from to packet.to
  [[nodiscard]] Time next_event() const;  // kNever: nothing under way
  void advance(Time now);                 // everything that is due by `now`
  void on_drop(std::function<void(PacketBuffer)> recycle) { recycle_ = std::move(recycle); }
  void reset_longest_waits();

 private:
  struct Port {
    Link link;
    Shaper out;
    Shaper in;
    Counters sent;
    Counters received;
  };
  struct ShaperEvent {
    Time at;
    int shaper;  // 2 * host, +1 for the incoming side
    bool operator>(const ShaperEvent& other) const { return at > other.at; }
  };
  struct InFlight {
    Time at;
    std::uint64_t order;
    Packet packet;
    bool operator>(const InFlight& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  template <typename T>
  using Earliest = std::priority_queue<T, std::vector<T>, std::greater<>>;

  [[nodiscard]] Port& port(int host) { return ports_[static_cast<std::size_t>(host)]; }
  [[nodiscard]] const Port& port(int host) const { return ports_[static_cast<std::size_t>(host)]; }
  [[nodiscard]] Path& path(int from, int to) {
    return paths_[static_cast<std::size_t>(from * hosts() + to)];
  }
  [[nodiscard]] Shaper& shaper(int index) {
    return index % 2 == 0 ? port(index / 2).out : port(index / 2).in;
  }
  [[nodiscard]] Travel travel(int from, int to) const;

  void watch(int shaper_index);
  void drop(Packet packet, std::int64_t& counter);
  void drop_queued(Shaper& queue, std::int64_t& counter, Time now);
  void run_shaper(const ShaperEvent& event);
  void leave(Packet packet);   // the sender's link, onto the path
  void arrive(Packet packet);  // at the receiver's link
  void land();                 // the earliest packet in flight

  std::vector<Port> ports_;
  std::vector<Path> paths_;
  DelayMatrix delays_;
  Deliver deliver_;
  std::function<void(PacketBuffer)> recycle_ = [](const PacketBuffer&) {};
  Earliest<ShaperEvent> shaper_events_;
  Earliest<InFlight> in_flight_;
  std::uint64_t order_ = 0;
};

}  // namespace pliant::lab
