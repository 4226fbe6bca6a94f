// SPDX-License-Identifier: MIT
// The lines of a run log as values (docs/formats/run-log.md has their keys).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/control/decide.h"
#include "pliant/plan/link.h"
#include "pliant/runlog/json.h"

namespace pliant::runlog {

// The first line.
struct LogHeader {
  std::string name;
  std::vector<std::pair<std::string, std::string>> versions;
  std::vector<std::string> command;
  int rank = 0;
  int world = 1;
  int lanes = 0;
  std::size_t parameters = 0;  // entries in all
  std::uint64_t layout = 0;
  std::vector<std::pair<std::string, std::string>> options;
  std::optional<std::string> optimizer;
  std::string costs;
  std::vector<std::size_t> buckets;
};

// One exchange of a step, as this rank measured it. Times are of the communicator's clock.
struct LogExchange {
  std::size_t group = 0;
  std::size_t lane = 0;
  Seconds begin, enter, leave, end;
  Bytes bytes;
  std::size_t entries = 0;  // of the group
};

struct LogStep {
  std::uint64_t step = 0;
  std::string plan;
  std::uint32_t epoch = 0;
  std::optional<std::uint64_t> round;
  std::optional<double> whole, compute;  // seconds, as all below
  double exposed = 0;
  double coding = 0;
  std::optional<double> predicted, seen;
  Bytes bytes, control_bytes;
  std::optional<plan::Link> link;
  std::optional<double> dense_step;
  double worth = 1;  // of this step, in steps of plain DDP
  std::optional<double> updated, gain, residual_ratio;
  bool is_void = false;
  std::vector<LogExchange> exchanges;
};

struct LogDecision {
  std::uint64_t step = 0;
  std::uint64_t round = 0;
  std::uint32_t epoch = 0;
  plan::Plan plan;
  std::optional<plan::Plan> from;
  std::string brief;                           // the short sentence
  std::string reason;                          // the long one
  const control::Decision* details = nullptr;  // null if nothing was predicted
};

struct LogSummary {
  std::string plan;
  std::uint64_t steps = 0;
  std::uint64_t exchanges = 0;
  Bytes bytes, control_bytes;
  std::uint64_t voids = 0;
};

// Puts the keys of a step's line, without type and t. Times count from `began`.
void put(JsonObject& object, const LogStep& step, Seconds began);
[[nodiscard]] std::string to_json(const LogSummary& summary);

}  // namespace pliant::runlog
