// SPDX-License-Identifier: MIT
// --dry-run: what would be done, without doing any of it.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "tools/pliant-lab/cli/commands.h"
#include "tools/pliant-lab/host/tun.h"

namespace pliant::lab {
namespace {

std::string who(const std::optional<int>& host) {
  return host ? fmt::format("host {}", *host) : "every host";
}

// What a change makes of a link that has nothing set.
std::string becomes(const LinkChange& change, Link link) {
  apply(change, link);
  return to_string(link);
}

void print_phase(const Phase& phase, std::vector<Link>& links, bool by_name_only) {
  const bool timed = phase.at && !by_name_only;
  fmt::print("  {:>8}  {}\n", timed ? to_string(*phase.at) : "by name", phase.name);
  for (const HostChange& c : phase.changes) {
    const auto first = static_cast<std::size_t>(c.host.value_or(0));
    fmt::print("            {}: {}\n", who(c.host), becomes(c.change, links[first]));
    for (std::size_t h = 0; h < links.size(); ++h) {
      if (!c.host || h == first) apply(c.change, links[h]);
    }
  }
}

void print_phases(const NetworkPlan& plan) {
  if (plan.timeline.phases.empty()) return;
  fmt::print("phases{}:\n",
             plan.timeline.repeat ? ", again every " + to_string(*plan.timeline.repeat) : "");
  std::vector<Link> links = plan.links();
  for (const Phase& phase : plan.timeline.phases) print_phase(phase, links, plan.by_name_only);
}

void print_regions(const NetworkPlan& plan) {
  const DelayMatrix delays = plan.timeline.delays(plan.hosts);
  if (delays.empty()) return;
  fmt::print("delay from host (row) to host (column), ms:\n");
  for (const auto& row : delays) {
    fmt::print("  ");
    for (const Seconds delay : row) fmt::print("{:>7.3g}", delay.value * 1e3);
    fmt::print("\n");
  }
}

}  // namespace

int dry_run(const NetworkOptions& options, const Command& command) {
  const NetworkPlan plan = options.plan();
  const auto limit = options.time_limit();
  fmt::print("would start {} hosts, MTU {}, seed {}{}\n", plan.hosts, plan.mtu, plan.seed,
             limit ? ", for at most " + to_string(*limit) : "");
  fmt::print("command in the lab: {}\n", fmt::join(command, " "));
  if (options.ranks_per_host > 1)
    fmt::print("ranks in each host: {}, joined by its loopback\n", options.ranks_per_host);
  const auto links = plan.links();
  for (int host = 0; host < plan.hosts; ++host)
    fmt::print("host {:<3} {:<12} {}\n", host, host_address(host),
               to_string(links[static_cast<std::size_t>(host)]));
  print_regions(plan);
  print_phases(plan);
  if (!options.truth.empty()) fmt::print("truth log: {}\n", options.truth);
  return 0;
}

}  // namespace pliant::lab
