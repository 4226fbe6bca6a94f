// SPDX-License-Identifier: MIT
// Readiness: estimate of when each unit's gradient is ready within a step. Rounds measure the units
// in turn: how long before the last unit each one was ready (its lead).
#pragma once

#include <span>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/model/predict.h"
#include "pliant/observe/level.h"

namespace pliant::observe {

class Readiness {
 public:
  // Entries of each unit, in the order of their exchange. Other units forget all leads.
  void set_units(const std::vector<std::size_t>& lengths);
  [[nodiscard]] std::size_t units() const { return lengths_.size(); }

  // The lead of one unit on the slowest rank. The last unit has none.
  void take(std::size_t unit, double lead);

  // Each unit with the time at which it is ready, in a step that computes for `compute`. A unit
  // that was not measured yet is placed by how much of the model comes before it.
  [[nodiscard]] std::vector<model::Bucket> buckets(Seconds compute) const;

  // One for each unit but the last.
  [[nodiscard]] std::span<const Level> leads() const { return leads_; }
  void restore(std::span<const double> leads);  // those that are missing are not known

 private:
  std::vector<std::size_t> lengths_;
  std::vector<Level> leads_;
};

}  // namespace pliant::observe
