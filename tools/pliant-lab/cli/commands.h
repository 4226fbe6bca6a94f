// SPDX-License-Identifier: MIT
// The commands of pliant-lab, one file each. All return the exit status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/pliant-lab/cli/options.h"

namespace pliant::lab {

using Command = std::vector<std::string>;  // a program and its arguments

int run(const NetworkOptions& options, const Command& command);
int mpirun(const NetworkOptions& options, const Command& command);
int shell(const NetworkOptions& options, const Command& command);
int dry_run(const NetworkOptions& options, const Command& command);
int exec_in_host(const std::string& host, std::optional<int> lab, const Command& command);
// Open MPI calls this in place of ssh: the address of a host, then the words of a shell command.
int mpi_agent(const Command& arguments);
int list_timelines();
int print_timeline(const std::string& name);
int tell(std::optional<int> lab,
         const std::string& line);  // a line to the control socket that is answered by "ok"
int status(std::optional<int> lab, bool json);

// A process among those that `run` starts.
struct Place {
  int host = 0;
  int hosts = 1;
  int local_rank = 0;
  int ranks_per_host = 1;
};

// Variables of a process's environment besides the launcher's.
[[nodiscard]] std::map<std::string, std::string> environment_of(const Place& place,
                                                                const std::string& control);

}  // namespace pliant::lab
