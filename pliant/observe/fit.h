// SPDX-License-Identifier: MIT
// Latency and inverse bandwidth from timings: the two numbers that make messages x latency + bytes
// x inverse bandwidth fit the durations best, in relative error, older ones counting less and
// outliers little.
#pragma once

#include <span>
#include <vector>

#include "pliant/plan/link.h"

namespace pliant::observe {

struct Row {
  double messages = 0;
  double bytes = 0;
  double seconds = 0;
  bool operator==(const Row&) const = default;
};

// The last rows, oldest first.
class Window {
 public:
  // 48 timings, weights halving every 20, bring noise of 20 % down to 4 % and still follow a drift.
  // Jumps are the detector's.
  static constexpr std::size_t kRows = 48;
  static constexpr double kForgetting = 0.966;

  void add(const Row& row);
  // All but the newest.
  void forget(std::size_t keep);
  [[nodiscard]] std::span<const Row> rows() const { return rows_; }
  bool operator==(const Window&) const = default;

 private:
  std::vector<Row> rows_;
};

// Both windows together. `start` is where the search begins and what decides a direction in which
// the rows say nothing.
[[nodiscard]] plan::Link fit(const Window& exchanges, const Window& controls,
                             const plan::Link& start, double spread);

}  // namespace pliant::observe
