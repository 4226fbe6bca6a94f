// SPDX-License-Identifier: MIT
// pliant-lab mpirun: Open MPI with one rank in each host and TCP between them.
//
// mpirun itself runs in a host of its own, behind the others, whose link is unlimited. It starts
// its daemon in each host through our agent, where it would use ssh; daemons and ranks then speak
// TCP over the emulated network.
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>

#include "tools/pliant-lab/cli/commands.h"
#include "tools/pliant-lab/host/tun.h"
#include "tools/pliant-lab/launch/supervisor.h"
#include "tools/pliant-lab/switch/control.h"

namespace pliant::lab {
namespace {

constexpr const char* kSubnet = "10.77.0.0/24";

void require_mpirun() {
  try {
    require_command({"mpirun"}, "");
  } catch (const InputError&) {
    throw MissingError(
        "mpirun is not in PATH. Open MPI 4.1 is needed: apt-get install openmpi-bin");
  }
}

std::string host_list(int hosts) {
  std::vector<std::string> list;
  list.reserve(static_cast<std::size_t>(hosts));
  for (int host = 0; host < hosts; ++host) list.push_back(host_address(host) + ":1");
  return fmt::format("{}", fmt::join(list, ","));
}

Command mpirun_command(int hosts, const Command& command) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  Command all = {"mpirun",   "--host", host_list(hosts), "-n", std::to_string(hosts),
                 "--map-by", "node",   "--tag-output"};
  const std::vector<std::pair<std::string, std::string>> parameters = {
      {"plm", "rsh"},
      {"plm_rsh_agent", self + " mpi-agent"},
      {"plm_rsh_no_tree_spawn", "1"},
      {"orte_leave_session_attached", "1"},  // mpirun sees a daemon that dies, and does not hang
      {"oob_tcp_if_include", kSubnet},
      {"btl", "self,tcp"},
      {"btl_tcp_if_include", kSubnet},
      {"pml", "ob1"},
      {"mpi_yield_when_idle", "1"},  // more ranks than processors
      {"hwloc_base_binding_policy", "none"},
  };
  for (const auto& [name, value] : parameters) all.insert(all.end(), {"--mca", name, value});
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

// Open MPI leaves session files behind when it is killed: they go to the lab's own folder in
// memory. These are mpirun's; the agent gives each host's daemon a folder of its own.
Environment mpi_environment(const Lab& lab) {
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_orte_tmpdir_base", lab.folder()},
          {"PMIX_MCA_gds", "hash"},
          {kControlVariable, lab.control()}};
}

Child start_mpirun(const Lab& lab, const NetworkPlan& plan, Relay& relay, const Command& command) {
  const Fd output = relay.add(STDOUT_FILENO, rewrite_mpi_tag);
  const Fd errors = relay.add(STDERR_FILENO, rewrite_mpi_tag);
  return lab.start({plan.hosts, mpirun_command(plan.hosts, command), mpi_environment(lab),
                    output.get(), errors.get()});
}

}  // namespace

int mpirun(const NetworkOptions& options, const Command& command) {
  if (command.empty())
    throw InputError(
        "no program; put it after --, as in: pliant-lab mpirun --hosts 8 --link 1gbit,1ms -- "
        "./program");
  if (options.dry_run) return dry_run(options, mpirun_command(options.hosts, command));
  NetworkPlan plan = options.plan();
  const auto limit = options.time_limit();
  require_mpirun();
  plan.unshaped_hosts = 1;
  block_signals();
  Lab lab(plan, options.open_truth());
  Relay relay;
  std::vector<Supervised> processes;
  processes.push_back({"mpirun", start_mpirun(lab, plan, relay, command)});
  return Supervisor(lab, std::move(processes), std::move(relay), limit).run();
}

}  // namespace pliant::lab
