// SPDX-License-Identifier: MIT
// Prediction of a plan: how long a step takes and how much progress it makes. Prices and coding
// costs are put into a step with its compute, the readiness of its buckets and its lanes. Pure
// functions: the same inputs give the same bits.
#pragma once

#include <span>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/model/coefficients.h"
#include "pliant/model/inputs.h"
#include "pliant/model/weigh.h"
#include "pliant/plan/plan.h"

namespace pliant::model {

struct Prediction {
  plan::Plan plan = {};
  Seconds step = {};      // the mean over a long run
  Seconds exchange = {};  // all exchanges of an exchanging step: wire and codec
  Seconds wire = {};      // of that, on the wire
  Seconds exposed = {};   // step - compute: what the exchange adds to a step
  double bytes = 0;       // that the busiest rank sends, per step
  double updated_fraction = 1;
  double efficiency = 1;  // the worth of a step
  double counted = 1;     // the same, as the goal counts it (Inputs::least_worth)
  double gain = 1;
  bool exact = true;  // the price was played, or is known to be linear
  double bend = 0;    // relative error that the exchange time may have otherwise

  // Progress per second, in dense steps, as the goal counts it.
  [[nodiscard]] double speed() const { return counted / step.value; }
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

}  // namespace pliant::model
