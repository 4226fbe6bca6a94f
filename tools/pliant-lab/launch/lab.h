// SPDX-License-Identifier: MIT
// Running lab: one network namespace per host, each with its device, and the switch process between
// them.
//
// The switch is process 1 of a process namespace in which everything else of the lab runs. It ends
// when the launcher does (a death signal, and a lifeline that closes), and when it ends the kernel
// kills the rest: whatever is killed, by whatever signal, nothing stays.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/pliant-lab/host/child.h"
#include "tools/pliant-lab/host/sys.h"
#include "tools/pliant-lab/switch/emulation.h"

namespace pliant::lab {

using Environment = std::map<std::string, std::string>;

// Start of a command in a host.
struct Start {
  int host = 0;
  std::vector<std::string> command;
  Environment environment;
  int output = -1;  // descriptors for stdout and stderr; -1 keeps the launcher's, and its stdin and
                    // terminal with it
  int errors = -1;
};

class Lab {
 public:
  // `truth` may be closed: then nothing is logged. Throws MissingError without namespaces or TUN.
  Lab(const NetworkPlan& plan, Fd truth);

  [[nodiscard]] Child start(const Start& start) const;
  [[nodiscard]] const std::string& control() const {
    return control_;
  }  // the socket's path as hosts see it
  [[nodiscard]] const std::string& folder() const {
    return folder_;
  }  // a private folder in memory, as hosts see it
  [[nodiscard]] Child& switch_process() { return switch_.front(); }
  // Ends the switch in order, with its log complete. Hosts that still run are killed by it.
  void end() { lifeline_.close(); }
  // Known before any host is seen to die of it.
  [[nodiscard]] bool switch_lost() const;
  void kill() { switch_process().signal(9); }

 private:
  void make_hosts(const NetworkPlan& plan);
  void start_switch(const NetworkPlan& plan, Fd truth);
  [[nodiscard]] int host_body(const Start& start) const;

  std::vector<Fd> devices_;     // the switch's, closed here once it runs
  std::vector<Fd> namespaces_;  // at kNamespaceFd + host
  Fd lifeline_;
  Fd mounts_;                  // the hosts' view of mounts
  std::vector<Child> switch_;  // one, once it runs
  std::string control_;
  std::string folder_;
};

// Becomes the command.
[[noreturn]] void become(const std::vector<std::string>& command);

}  // namespace pliant::lab
