// SPDX-License-Identifier: MIT
// pliant-lab shell: a prompt in host 0. The other hosts are there, and 'pliant-lab exec 1 --
// command' runs things in them.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "tools/pliant-lab/cli/commands.h"
#include "tools/pliant-lab/launch/supervisor.h"

namespace pliant::lab {
namespace {

Command prompt() {
  const char* shell = std::getenv("SHELL");
  return {shell != nullptr && access(shell, X_OK) == 0 ? shell : "/bin/sh"};
}

void take_terminal_back() {
  signal(SIGTTOU, SIG_IGN);
  tcsetpgrp(STDIN_FILENO, getpgrp());
}

}  // namespace

int shell(const NetworkOptions& options, const Command& command) {
  const Command start = command.empty() ? prompt() : command;
  require_command(start, "pliant-lab shell --hosts 2 -- bash");
  if (options.dry_run) return dry_run(options, start);
  const NetworkPlan plan = options.plan();
  const auto limit = options.time_limit();
  block_signals();
  Lab lab(plan, options.open_truth());
  std::vector<Supervised> processes;
  processes.push_back(
      {"", lab.start({.host = 0,
                      .command = start,
                      .environment = environment_of({.hosts = plan.hosts}, lab.control())})});
  const int status = Supervisor(lab, std::move(processes), Relay(), limit).run();
  take_terminal_back();
  return status;
}

}  // namespace pliant::lab
