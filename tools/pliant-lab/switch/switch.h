// SPDX-License-Identifier: MIT
// The switch process: moves packets between the hosts' devices through the emulated network, and
// serves the control socket. It sleeps in epoll until a packet comes, the next event of the network
// is due, or someone connects.
#pragma once

#include <map>
#include <vector>

#include "tools/pliant-lab/host/sys.h"
#include "tools/pliant-lab/switch/emulation.h"

namespace pliant::lab {

class Switch {
 public:
  // `lifeline` is the launcher's: when it closes, for whatever reason, the switch ends, and with it
  // the lab.
  Switch(NetworkPlan plan, Truth truth, std::vector<Fd> devices, Fd control, Fd lifeline);
  void run();
  [[nodiscard]] const Lateness& lateness() const { return emulation_.lateness(); }

 private:
  struct Client {
    Fd socket;
    std::string received;
    std::string unsent;
  };

  void add(int fd, std::uint64_t tag, std::uint32_t events);
  void arm_timer(Time last_wake);
  void handle(std::uint64_t tag, std::uint32_t events);
  void read_device(int host);
  void forward(PacketBuffer buffer, std::size_t size, int host);
  void deliver(Packet packet);
  void accept_client();
  void serve(int fd, std::uint32_t events);
  [[nodiscard]] bool read_client(Client& client);
  [[nodiscard]] bool write_client(Client& client);

  std::vector<Fd> devices_;
  Fd control_;
  Fd lifeline_;
  Fd epoll_;
  Fd timer_;
  PacketPool pool_;
  Emulation emulation_;
  std::map<int, Client> clients_;
  Time now_{0};
  Time armed_{0};
  bool done_ = false;
};

}  // namespace pliant::lab
