// SPDX-License-Identifier: MIT
// Report of the measurements: a table for people and a JSON document for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/pliant-bench/measure.h"
#include "tools/pliant-bench/problem.h"

namespace pliant::bench {

inline constexpr int kSchema = 1;  // of the JSON document; docs/bench.md

struct Row {
  Problem problem;
  int segments = 0;
  Timing timing;
  std::optional<Seconds> reference = {};  // the reference's median
  std::optional<Seconds> price = {};
  std::optional<Seconds> bound = {};
};

// One contender of one collective, at every size.
struct Block {
  schedule::Collective collective;
  std::string name;
  std::vector<Row> rows;
};

struct Report {
  int ranks;
  std::string backend;
  std::string reference;  // name of the reference; empty if there is none
  Options options;
  std::vector<Block> blocks;

  [[nodiscard]] bool wrong() const;
};

// Three significant digits, without an exponent.
[[nodiscard]] std::string digits(double value);

[[nodiscard]] std::string as_table(const Report& report);
[[nodiscard]] std::string as_json(const Report& report);

}  // namespace pliant::bench
