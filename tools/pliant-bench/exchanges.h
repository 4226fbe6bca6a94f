// SPDX-License-Identifier: MIT
// Benchmark of whole exchanges under plans, in turns with Pliant's dense all-reduce and the
// backend's own.
#pragma once

#include <string>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/plan/plan.h"
#include "tools/pliant-bench/measure.h"
#include "tools/pliant-bench/options.h"
#include "tools/pliant-bench/ranks.h"

namespace pliant::bench {

// Times are the slowest rank's; shares, kept and updated fraction are the first rank's, wire bytes
// those of the rank that sends most.
struct ExchangeRow {
  std::size_t count = 0;                // elements of the bucket
  std::optional<plan::Plan> plan = {};  // nullopt: the backend's own all-reduce
  std::size_t kept = 0;                 // entries that a rank sent
  double wire_bytes = 0;                // sent
  int messages = 0;
  double updated_fraction = 1;
  Seconds own, select, encode, wire, decode;  // means: of the whole, and of its parts
  Timing timing = {};
  std::optional<Seconds> reference = {};  // the backend's yardstick
  std::optional<Seconds> dense = {};      // our dense all-reduce
  std::optional<Seconds> price = {};
};

struct ExchangeReport {
  int ranks;
  std::string backend;
  std::string reference;  // name of the backend's own all-reduce; empty if there is none
  bool hollow;            // messages had their sizes and no content
  Options options;
  std::vector<ExchangeRow> rows;

  [[nodiscard]] bool wrong() const;
};

// Collective; the report is of use on the first rank only, but for wrong().
[[nodiscard]] ExchangeReport run_exchanges(comm::Communicator& communicator, const Backend& backend,
                                           const Options& options,
                                           std::span<const std::size_t> counts);

[[nodiscard]] std::string as_table(const ExchangeReport& report);
[[nodiscard]] std::string as_json(const ExchangeReport& report);

}  // namespace pliant::bench
