// SPDX-License-Identifier: MIT
// Emulation: the network with its timeline, commands and truth log. The caller gives the time.
#pragma once

#include <memory>
#include <string>

#include "tools/pliant-lab/net/network.h"
#include "tools/pliant-lab/switch/truth.h"
#include "tools/pliant-lab/timeline/player.h"

namespace pliant::lab {

// Everything that defines a lab's network before it starts.
struct NetworkPlan {
  int hosts = 2;
  int unshaped_hosts = 0;           // behind those: the lab's own, for mpirun
  std::vector<HostChange> changes;  // from the command line
  Timeline timeline;
  bool by_name_only = false;
  std::uint64_t seed = 1;
  int mtu = 1500;

  [[nodiscard]] std::vector<Link> links() const;  // of every host at the start
};

class Emulation {
 public:
  Emulation(NetworkPlan plan, Truth truth, Network::Deliver deliver);

  [[nodiscard]] const NetworkPlan& plan() const { return plan_; }
  [[nodiscard]] Network& network() { return network_; }
  void start(Time now);
  [[nodiscard]] Time next_event() const;
  void advance(Time now);
  // Changes one host, or all of them.
  void change(std::optional<int> host, const LinkChange& change, const std::string& cause,
              Time now);
  void trigger(const std::string& phase, Time now);
  [[nodiscard]] nlohmann::ordered_json status(Time now) const;

  void delivered(Time late) { lateness_.add(late); }
  [[nodiscard]] const Lateness& lateness() const { return total_lateness_; }
  void finish(Time now);

 private:
  struct Usage {  // of the processor by this process
    double cpu = 0;
    double waited = 0;
  };
  [[nodiscard]] static Usage usage();
  void enter(const Phase& phase, const std::string& cause, Time now);
  void log_second(Time now);
  void log_host(int host, Time now, double interval);

  NetworkPlan plan_;
  Network network_;
  Truth truth_;
  std::unique_ptr<Player> player_;
  std::string phase_;  // the last one entered
  Time started_{0};
  Time second_start_{0};
  std::vector<Counters> sent_before_;
  std::vector<Counters> received_before_;
  Usage usage_before_;
  Lateness lateness_;  // of this second
  Lateness total_lateness_;
};

}  // namespace pliant::lab
