// SPDX-License-Identifier: MIT
// Options of the commands that build a network, and the network that they describe.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/pliant-lab/host/sys.h"
#include "tools/pliant-lab/switch/emulation.h"

namespace pliant::lab {

struct NetworkOptions {
  int hosts = 2;
  int ranks_per_host = 1;  // of run
  std::vector<std::string> links;
  std::vector<std::string> host_links;  // "3=20mbit,80ms"
  std::string timeline;
  bool by_name = false;
  double scale_bandwidth = 1;
  double scale_time = 1;
  std::string mtu = "auto";
  std::uint64_t seed = 1;
  std::string truth;
  std::string timeout;
  bool dry_run = false;

  void add_to(CLI::App& command);
  [[nodiscard]] NetworkPlan plan() const;  // throws InputError
  [[nodiscard]] Fd open_truth() const;     // closed if there is none
  [[nodiscard]] std::optional<Seconds> time_limit() const;
};

// "3=20mbit,80ms" -> host 3 and the change.
[[nodiscard]] HostChange parse_host_link(const std::string& text, int hosts);
// Throws InputError if there is no command, or its program cannot be found.
void require_command(const std::vector<std::string>& command, const std::string& example);

}  // namespace pliant::lab
