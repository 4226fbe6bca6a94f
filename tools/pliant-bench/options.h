// SPDX-License-Identifier: MIT
// Options of pliant-bench: those of nccl-tests, and its own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/plan/link.h"
#include "pliant/plan/plan.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::bench {

struct Options {
  std::size_t min_bytes = 64 << 10;
  std::size_t max_bytes = 4 << 20;
  double factor = 8;  // from one size to the next
  int iterations = 20;
  int warmups = 5;
  int checks = 1;       // checked iterations; 0: none
  int local_ranks = 0;  // threads of this process; 0: the ranks are MPI's

  std::vector<schedule::Collective> collectives = {schedule::Collective::kAllReduce};
  std::vector<std::string> schedules = {};  // empty: all there are
  int root = 0;
  int segments = 0;  // 0: the best by price, for each size
  bool reference = true;

  // Exchanges under plans, instead of collectives, if there are any.
  std::vector<plan::Plan> plans = {};    // in full
  std::vector<plan::Pins> schemes = {};  // schedules and segments are chosen by price
  std::vector<std::size_t> counts = {};  // elements of the bucket; empty: by the sizes above

  std::optional<plan::Link> link = {};            // adds predicted times
  std::optional<Seconds> deadline = Seconds{60};  // for each message
  bool json = false;

  std::string show = {};  // draw this schedule for `ranks` ranks instead of running anything
  int ranks = 8;

  std::string say = {};  // --help, --version: print this and leave
};

// Throws InputError that names the option at fault.
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

// "8M" as nccl-tests has it, K, M and G being binary, or "8MiB".
[[nodiscard]] std::size_t parse_bytes(const std::string& text, const std::string& option);

// "25.56M": elements, K, M and G being decimal.
[[nodiscard]] std::size_t parse_count(const std::string& text, const std::string& option);

// Are exchanges asked for, rather than collectives?
[[nodiscard]] bool exchanges(const Options& options);

// Is this builder among the schedules asked for?
[[nodiscard]] bool wanted(const Options& options, const schedule::Builder& builder);

}  // namespace pliant::bench
