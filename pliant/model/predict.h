// SPDX-License-Identifier: MIT
// What a step under a plan takes and what it is worth: prices and codec costs, put into a step with
// its compute, its buckets' readiness and its lanes. Pure: the same inputs give the same bits.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/model/codec.h"
#include "pliant/model/coefficients.h"
#include "pliant/model/efficiency.h"
#include "pliant/plan/corrections.h"
#include "pliant/plan/costs.h"
#include "pliant/plan/link.h"
#include "pliant/plan/plan.h"

namespace pliant::model {

struct Bucket {
  std::size_t length = 0;
  Seconds ready = {};  // after the step began; gradients are exchanged in the order of readiness
  bool operator==(const Bucket&) const = default;
};

// Ranks do not begin an exchange together. One that steps are to hide takes longer by this share of
// a step's compute: waiting for the last.
inline constexpr double kUsualDrift = 0.25;

// What is hidden is not free: while an exchange travels, processors and memory serve it too, and a
// step takes longer by this share of the time that it hides.
inline constexpr double kUsualDrag = 0.2;

struct Inputs {
  plan::World world = {};
  std::vector<Bucket> buckets = {};  // in the order in which they become ready
  std::size_t buffers = 0;  // entries that travel beside every exchange of updates (plan::beside)
  Seconds compute = {};     // of a step: forward, backward, optimizer
  plan::CostTable costs = {};
  double coding = 1;  // what coding takes over what `costs` says: beside training, processors and
                      // caches are shared
  bool adam = false;  // the optimizer divides by a second moment
  EfficiencyOptions efficiency = {};
  int lanes = 1;  // 0: everything runs in the caller, nothing overlaps
  double drift = kUsualDrift;
  double drag = kUsualDrag;
  plan::Corrections corrections = {};
  std::optional<double> overlap = {};  // of the ranks' selections, if measured
  GainCurve gain = {};
  bool operator==(const Inputs&) const = default;
};

struct Prediction {
  plan::Plan plan = {};
  Seconds step = {};      // the mean over a long run
  Seconds exchange = {};  // all exchanges of an exchanging step: wire and codec
  Seconds wire = {};      // of that, on the wire
  Seconds exposed = {};   // step - compute: what the exchange adds to a step
  double bytes = 0;       // that the busiest rank sends, per step
  double updated_fraction = 1;
  double efficiency = 1;
  double gain = 1;
  bool exact = true;  // the price was played, or is known to be linear
  double bend = 0;    // if not: by how much the exchange may be off, relative

  // Progress per second, in dense steps.
  [[nodiscard]] double speed() const { return efficiency / step.value; }
};

// Over equal links from the book's coefficients; over unequal ones as if all were the worst (the
// largest latency, the lowest bandwidth).
[[nodiscard]] Prediction predict(const plan::Plan& plan, const Inputs& inputs, PriceBook& book);

// With every exchange played by price_exchange; for `shared` the mean over leaders (at most four of
// them, evenly spread).
[[nodiscard]] Prediction predict_exactly(const plan::Plan& plan, const Inputs& inputs,
                                         PriceBook& book);

// All plans by predict(); then those that could be best are played: with unequal links, and where
// the book knows that a price is bent.
[[nodiscard]] std::vector<Prediction> predict_all(std::span<const plan::Plan> plans,
                                                  const Inputs& inputs, PriceBook& book);

// The units in which a step's contribution travels, with the time at which each is ready.
[[nodiscard]] std::vector<Bucket> units(const plan::Plan& plan, const Inputs& inputs);

// What all exchanges of an exchanging step weigh, and where the correction of their time is kept:
// by the largest of them, which takes most of it.
struct StepWeight {
  Weight weight = {};
  std::size_t correction = 0;
};
[[nodiscard]] StepWeight weigh_step(const plan::Plan& plan, const Inputs& inputs, PriceBook& book);

// What coding an exchanging step's contribution takes by `costs` alone: all of it with gradients,
// the training thread's share with updates.
[[nodiscard]] Seconds coding_of(const plan::Plan& plan, const Inputs& inputs);

// The link that has the largest latency and the lowest bandwidth of all.
[[nodiscard]] plan::Link worst_link(const plan::World& world);

}  // namespace pliant::model
