// SPDX-License-Identifier: MIT
// Least-squares fit of latency and inverse bandwidth to timings: messages x latency + bytes x
// inverse bandwidth, in relative error. Older timings count less, and outliers little.
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
  // The Detector handles jumps.
  static constexpr std::size_t kRows = 48;
  static constexpr double kForgetting = 0.966;

  void add(const Row& row);
  // Keeps only the newest rows.
  void forget(std::size_t keep);
  [[nodiscard]] std::span<const Row> rows() const { return rows_; }
  bool operator==(const Window&) const = default;

 private:
  std::vector<Row> rows_;
};

// Fits both windows together. The search begins at `start`, which also decides a direction that the
// rows leave open. `spread` is the usual noise of log(seen / predicted).
[[nodiscard]] plan::Link fit(const Window& exchanges, const Window& controls,
                             const plan::Link& start, double spread);

}  // namespace pliant::observe
