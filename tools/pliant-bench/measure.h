// SPDX-License-Identifier: MIT
// Measurement of the contenders of one problem in turns: each iteration runs each of them once, so
// that other work of the machine disturbs all alike.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pliant/comm/communicator.h"
#include "tools/pliant-bench/options.h"

namespace pliant::bench {

struct Contender {
  std::string name;                // of the schedule, or of the reference
  int segments = 0;                // 0: it has none
  bool reference = false;          // the others are held against it
  std::function<void()> run = {};  // collective
  std::function<std::int64_t()> check =
      {};  // fills, runs and counts what is wrong here; none: cannot be checked
  std::optional<Seconds> price = {};
};

struct Timing {
  Seconds median, low,
      high;  // over the iterations (10th and 90th percentile); each is the slowest rank's
  std::optional<std::int64_t> wrong = {};  // the most elements on any rank; none: not checked
};

[[nodiscard]] Timing summary(std::vector<double> seconds);

// One Timing for each contender, the same on all ranks.
[[nodiscard]] std::vector<Timing> measure(comm::Communicator& communicator,
                                          std::span<const Contender> contenders,
                                          const Options& options);

}  // namespace pliant::bench
