// SPDX-License-Identifier: MIT
// pliant-lab set, down, up, phase, status: from another terminal, or from inside a host.
#include "tools/pliant-lab/switch/control.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "pliant/common/exit_code.h"
#include "tools/pliant-lab/cli/commands.h"

namespace pliant::lab {
namespace {

constexpr std::string_view kError = "error: ";

std::string traffic(const nlohmann::json& counters) {
  const std::int64_t dropped = counters["dropped_queue"].get<std::int64_t>() +
                               counters["dropped_loss"].get<std::int64_t>() +
                               counters["dropped_down"].get<std::int64_t>();
  return fmt::format("{:>10} {:>8}", to_string(Bytes{counters["bytes"].get<std::int64_t>()}),
                     dropped);
}

std::string verdict(const nlohmann::json& s) {
  const std::string timeline = s["timeline"].get<std::string>();
  const std::string phase = s["phase"].get<std::string>();
  return fmt::format("{} hosts, up for {}{}{}, MTU {}; the switch was late by {} at most",
                     s["hosts"].size(), to_string(Seconds{s["elapsed_s"].get<double>()}),
                     timeline.empty() ? "" : ", timeline " + timeline,
                     phase.empty() ? "" : ", phase " + phase, s["mtu"].get<int>(),
                     to_string(Seconds{s["switch"]["late_max_s"].get<double>()}));
}

void print_status(const nlohmann::json& s) {
  fmt::print("{}\n\n{:>4}  {:<12} {:>10} {:>8} {:>10} {:>8}  {}\n", verdict(s), "host", "address",
             "sent", "dropped", "received", "dropped", "link");
  for (const auto& host : s["hosts"]) {
    fmt::print("{:>4}  {:<12} {} {}  {}\n", host["host"].get<int>(),
               host["address"].get<std::string>(), traffic(host["sent"]), traffic(host["received"]),
               host["summary"].get<std::string>());
  }
}

}  // namespace

int tell(std::optional<int> lab, const std::string& line) {
  const std::string answer = ask(find_control(lab), line);
  if (answer.starts_with(kError)) throw InputError(answer.substr(kError.size()));
  return kExitFine;
}

int status(std::optional<int> lab, bool json) {
  const std::string answer = ask(find_control(lab), "status");
  if (json) {
    fmt::print("{}\n", answer);
  } else {
    print_status(nlohmann::json::parse(answer));
  }
  return kExitFine;
}

}  // namespace pliant::lab
