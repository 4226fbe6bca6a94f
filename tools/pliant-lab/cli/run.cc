// SPDX-License-Identifier: MIT
// pliant-lab run: the same command in every host.
#include <unistd.h>

#include "tools/pliant-lab/cli/commands.h"
#include "tools/pliant-lab/host/tun.h"
#include "tools/pliant-lab/launch/supervisor.h"
#include "tools/pliant-lab/switch/control.h"

namespace pliant::lab {
namespace {

constexpr const char* kMasterPort = "29500";  // torch's default

}  // namespace

// What torchrun sets, for one process per host, and where the control socket is. Python writes its
// lines as they come.
Environment host_environment(int host, int hosts, const std::string& control) {
  return {{"RANK", std::to_string(host)},
          {"WORLD_SIZE", std::to_string(hosts)},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"MASTER_ADDR", host_address(0)},
          {"MASTER_PORT", kMasterPort},
          {"GLOO_SOCKET_IFNAME", kDeviceName},
          {"PYTHONUNBUFFERED", "1"},
          {"PLIANT_LAB_HOST", std::to_string(host)},
          {kControlVariable, control}};
}

int run(const NetworkOptions& options, const Command& command) {
  require_command(command, "pliant-lab run --hosts 4 --link 100mbit,10ms -- python train.py");
  if (options.dry_run) return dry_run(options, command);
  const NetworkPlan plan = options.plan();
  const auto limit = options.time_limit();
  block_signals();
  Lab lab(plan, options.open_truth());
  Relay relay;
  std::vector<Supervised> processes;
  for (int host = 0; host < plan.hosts; ++host) {
    const std::string name = fmt::format("host {}", host);
    const Fd output = relay.add(STDOUT_FILENO, prefix_with("[" + name + "] "));
    const Fd errors = relay.add(STDERR_FILENO, prefix_with("[" + name + "] "));
    processes.push_back(
        {name, lab.start({host, command, host_environment(host, plan.hosts, lab.control()),
                          output.get(), errors.get()})});
  }
  return Supervisor(lab, std::move(processes), std::move(relay), limit).run();
}

}  // namespace pliant::lab
