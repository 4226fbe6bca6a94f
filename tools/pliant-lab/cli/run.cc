// SPDX-License-Identifier: MIT
// pliant-lab run: the same command in every host, once for each of its ranks.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tools/pliant-lab/cli/commands.h"
#include "tools/pliant-lab/host/tun.h"
#include "tools/pliant-lab/launch/supervisor.h"
#include "tools/pliant-lab/switch/control.h"

namespace pliant::lab {
namespace {

constexpr const char* kMasterPort = "29500";  // torch's default

// torchrun starts the ranks of its host itself.
bool starts_ranks(const Command& command) {
  const auto is_module = [](const std::string& word) { return word == "torch.distributed.run"; };
  return std::filesystem::path(command.front()).filename() == "torchrun" ||
         std::ranges::any_of(command, is_module);
}

std::string name_of(const Place& place) {
  if (place.ranks_per_host == 1) return fmt::format("host {}", place.host);
  return fmt::format("host {} rank {}", place.host,
                     place.host * place.ranks_per_host + place.local_rank);
}

Supervised start(const Lab& lab, Relay& relay, const Place& place, const std::string& name,
                 const Command& command) {
  const Fd output = relay.add(STDOUT_FILENO, prefix_with("[" + name + "] "));
  const Fd errors = relay.add(STDERR_FILENO, prefix_with("[" + name + "] "));
  return {name, lab.start({place.host, command, environment_of(place, lab.control()), output.get(),
                           errors.get()})};
}

}  // namespace

// What torchrun sets for a rank, what torchrun itself reads (PET_...), and where the control socket
// is. Ranks of one host reach each other by its own address, over its loopback. Python writes its
// lines as they come.
Environment environment_of(const Place& place, const std::string& control) {
  const std::string host = std::to_string(place.host);
  const std::string hosts = std::to_string(place.hosts);
  const std::string per_host = std::to_string(place.ranks_per_host);
  return {{"RANK", std::to_string(place.host * place.ranks_per_host + place.local_rank)},
          {"WORLD_SIZE", std::to_string(place.hosts * place.ranks_per_host)},
          {"LOCAL_RANK", std::to_string(place.local_rank)},
          {"LOCAL_WORLD_SIZE", per_host},
          {"GROUP_RANK", host},
          {"MASTER_ADDR", host_address(0)},
          {"MASTER_PORT", kMasterPort},
          {"PET_NNODES", hosts},
          {"PET_NODE_RANK", host},
          {"PET_NPROC_PER_NODE", per_host},
          {"PET_MASTER_ADDR", host_address(0)},
          {"PET_MASTER_PORT", kMasterPort},
          {"GLOO_SOCKET_IFNAME", kDeviceName},
          {"PYTHONUNBUFFERED", "1"},
          {"PLIANT_LAB_HOST", host},
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
  const int per_host = options.ranks_per_host;
  for (int host = 0; host < plan.hosts; ++host) {
    const bool once = starts_ranks(command);
    for (int local = 0; local < (once ? 1 : per_host); ++local) {
      const Place place{host, plan.hosts, local, per_host};
      const std::string name = once ? fmt::format("host {}", host) : name_of(place);
      processes.push_back(start(lab, relay, place, name, command));
    }
  }
  return Supervisor(lab, std::move(processes), std::move(relay), limit).run();
}

}  // namespace pliant::lab
