// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/cli/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tools/pliant-lab/host/tun.h"

namespace pliant::lab {
namespace {

// A fast link needs large packets, or moving them costs more processor time than two cores have: 1
// Gbit/s is 83,000 packets of 1500 bytes a second each way. A slow link needs small ones, or one
// packet holds it up for long.
constexpr BytesPerSecond kJumboFrom = from_bits_per_second(200e6);
constexpr BytesPerSecond kHugeFrom = from_bits_per_second(2.5e9);

constexpr int kMostRanksPerHost = 64;

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 7 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

int automatic_mtu(BytesPerSecond fastest) {
  if (fastest >= kHugeFrom) return 65000;
  return fastest >= kJumboFrom ? 9000 : 1500;
}

BytesPerSecond fastest(const NetworkPlan& plan) {
  BytesPerSecond most = plan.timeline.fastest();
  const bool timed_from_start =
      !plan.timeline.phases.empty() && plan.timeline.phases.front().at == Seconds{0};
  if (timed_from_start && !plan.by_name_only) return most;
  for (const Link& link : plan.links())
    most = std::max({most, link.out.rate.mean(), link.in.rate.mean()});
  return most;
}

int parse_mtu(const std::string& text, const NetworkPlan& plan) {
  if (text == "auto") return automatic_mtu(fastest(plan));
  const int mtu = is_number(text) ? std::stoi(text) : 0;
  if (mtu < 576 || mtu > 65000)
    throw InputError(
        fmt::format("--mtu: '{}' is not a number of bytes from 576 to 65000, nor 'auto'", text));
  return mtu;
}

void require_positive(double value, const char* option) {
  if (!(value > 0) || value > 1e9)
    throw InputError(fmt::format("{}: '{}' must be above 0", option, value));
}

bool runnable(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

bool found_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (runnable(folder.append("/").append(program))) return true;
  }
  return false;
}

}  // namespace

void NetworkOptions::add_to(CLI::App& command) {
  command.add_option("--hosts", hosts, "Number of hosts, 1 to 200")->capture_default_str();
  command
      .add_option(
          "--link", links,
          "Every host's link, as in 100mbit,10ms,jitter=2ms,loss=0.5%,reorder=1%,queue=100p")
      ->type_name("LINK");
  command.add_option("--host", host_links, "One host's link, over --link; may be repeated")
      ->type_name("I=LINK");
  command.add_option("--timeline", timeline,
                     "A changing network: a shipped one ('pliant-lab timelines' lists them), a "
                     "TOML or CSV file, or a packet-delivery trace");
  command.add_flag(
      "--by-name", by_name,
      "Phases of the timeline come only when they are named (pliant-lab phase NAME), not by time");
  command.add_option("--scale-bandwidth", scale_bandwidth, "Multiplies every rate of the timeline")
      ->capture_default_str();
  command
      .add_option("--scale-time", scale_time,
                  "Multiplies every time of the timeline (not its delays)")
      ->capture_default_str();
  command
      .add_option("--mtu", mtu,
                  "Bytes, or auto: 1500, from 200 Mbit/s on 9000, from 2.5 Gbit/s on 65000")
      ->capture_default_str();
  command.add_option("--seed", seed, "Of loss, jitter and reordering")->capture_default_str();
  command.add_option("--truth", truth, "Log what the network really was, as JSON lines")
      ->type_name("FILE");
  command
      .add_option("--timeout", timeout,
                  "End everything after this long, as in 10min; exit status 124")
      ->type_name("TIME");
  command.add_flag("--dry-run", dry_run, "Print what would be done, and do nothing");
}

HostChange parse_host_link(const std::string& text, int hosts) {
  const auto equals = text.find('=');
  const std::string number = text.substr(0, equals);
  if (equals == std::string::npos || !is_number(number))
    throw InputError(
        fmt::format("--host: '{}' must be a host and its link, as in 3=20mbit,80ms", text));
  if (std::stoi(number) >= hosts)
    throw InputError(
        fmt::format("--host: there is no host {}; there are hosts 0 to {}", number, hosts - 1));
  return {std::stoi(number), parse_link(text.substr(equals + 1), fmt::format("--host {}", number))};
}

NetworkPlan NetworkOptions::plan() const {
  if (hosts < 1 || hosts > kMostHosts)
    throw InputError(fmt::format("--hosts: {} is not between 1 and {}", hosts, kMostHosts));
  if (ranks_per_host < 1 || ranks_per_host > kMostRanksPerHost)
    throw InputError(fmt::format("--ranks-per-host: {} is not between 1 and {}", ranks_per_host,
                                 kMostRanksPerHost));
  require_positive(scale_bandwidth, "--scale-bandwidth");
  require_positive(scale_time, "--scale-time");
  NetworkPlan plan;
  plan.hosts = hosts;
  plan.seed = seed;
  plan.by_name_only = by_name;
  for (const std::string& link : links)
    plan.changes.push_back({std::nullopt, parse_link(link, "--link")});
  for (const std::string& link : host_links) plan.changes.push_back(parse_host_link(link, hosts));
  if (!timeline.empty())
    plan.timeline = scaled(load_timeline(timeline), scale_bandwidth, scale_time);
  plan.timeline.require_hosts(hosts);
  plan.mtu = parse_mtu(mtu, plan);
  return plan;
}

Fd NetworkOptions::open_truth() const {
  if (truth.empty()) return {};
  const int fd = open(truth.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    throw InputError(io_error_from_errno(fmt::format("--truth: opening '{}'", truth)).what());
  return {fd, truth};
}

std::optional<Seconds> NetworkOptions::time_limit() const {
  if (timeout.empty()) return std::nullopt;
  const Seconds limit = parse_duration(timeout, "--timeout");
  if (limit.value <= 0) throw InputError(fmt::format("--timeout: '{}' must be above 0", timeout));
  return limit;
}

void require_command(const std::vector<std::string>& command, const std::string& example) {
  if (command.empty())
    throw InputError(fmt::format("no command; put it after --, as in: {}", example));
  const std::string& program = command.front();
  const bool found =
      program.find('/') != std::string::npos ? runnable(program) : found_in_path(program);
  if (!found)
    throw InputError(fmt::format(
        "'{}' is not a program that can be run: no such file in PATH, or not executable", program));
}

}  // namespace pliant::lab
