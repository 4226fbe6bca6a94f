// SPDX-License-Identifier: MIT
// Inputs of a prediction: network, buckets, compute, coding costs, and what was measured of them.
#pragma once

#include <optional>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/model/efficiency.h"
#include "pliant/plan/corrections.h"
#include "pliant/plan/costs.h"
#include "pliant/plan/link.h"

namespace pliant::model {

struct Bucket {
  std::size_t length = 0;
  Seconds ready = {};  // after the step began; gradients are exchanged in the order of readiness
  bool operator==(const Bucket&) const = default;
};

// Ranks do not begin an exchange together. An exchange that is hidden behind steps takes longer by
// this share of a step's compute: it waits for the last rank.
inline constexpr double kUsualDrift = 0.25;

// Hidden time is not free: an exchange under way uses processors and memory too. A step takes
// longer by this share of the exchange time that it hides.
inline constexpr double kUsualDrag = 0.2;

struct Inputs {
  plan::World world = {};
  std::vector<Bucket> buckets = {};  // in the order in which they become ready
  std::size_t buffers = 0;  // entries that travel beside every exchange of updates (plan::beside)
  Seconds compute = {};     // of a step: forward, backward, optimizer
  double compute_uncertainty = 0;  // one standard deviation of it, relative
  plan::CostTable costs = {};
  // Measured coding time / coding time by `costs`: training shares processors and caches with it.
  double coding = 1;
  double coding_uncertainty = 0;  // one standard deviation of it, relative
  bool adam = false;              // the optimizer divides by a second moment
  EfficiencyOptions efficiency = {};
  // Goal steps: a step of a plan that is worth at least this counts as one step, of any other plan
  // as next to nothing. 0 = goal time: a step counts as much as it is worth.
  double least_worth = 0;
  int lanes = 1;  // with 0 everything runs in the caller and nothing overlaps
  double drift = kUsualDrift;
  double drag = kUsualDrag;
  plan::Corrections corrections = {};
  std::optional<double> overlap = {};  // of the ranks' selections, where measured
  GainCurve gain = {};
  bool operator==(const Inputs&) const = default;
};

}  // namespace pliant::model
