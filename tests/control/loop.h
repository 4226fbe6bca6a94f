// SPDX-License-Identifier: MIT
// Loop: training in pure model terms. A synthetic network times the exchanges of the plan in force;
// observe and control do the rest, with the delays of real records. No engine, clock or threads.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "pliant/control/decide.h"
#include "pliant/observe/compute.h"
#include "pliant/observe/network.h"
#include "pliant/plan/density.h"
#include "tests/support/synthetic_network.h"

namespace pliant::test {

class Loop {
 public:
  // The book is a memo: loops may share one.
  Loop(model::PriceBook& prices, int ranks, const plan::Link& truth, std::size_t length,
       Seconds compute, unsigned seed, double spread = 0.2, double outliers = 0.01)
      : network(truth, seed, spread, outliers),
        observed(ranks),
        book(prices),
        ranks_(ranks),
        compute_(compute) {
    inputs.model = {.world = observed.world(), .buckets = {{length, compute}}, .compute = compute};
  }

  // One step; the decision made after it, if a record was taken in.
  std::optional<control::Decision> step() {
    if (!in_force_) return start();
    const plan::Plan plan = *in_force_;
    const bool exchanges = plan.kind == plan::Kind::kGradients || (now_ - sent_) >= plan.every;
    if (exchanges) {
      sent_ = now_;
      // Gradients: the record of step s is taken in at s + 2. Updates: when the exchange lands;
      // late = 0: when the next one lands.
      const std::int64_t due = plan.kind == plan::Kind::kGradients
                                   ? now_ + 2
                                   : now_ + (plan.late > 0 ? plan.late : plan.every);
      pending_.push_back({due, batch(plan)});
    }
    ++now_;
    std::optional<control::Decision> decision;
    while (!pending_.empty() && pending_.front().due <= now_) {
      take(pending_.front().batch);
      pending_.pop_front();
      inputs.step = now_ + 1;
      decision = control::decide(inputs, options, state, book);
      inputs.changed = false;
    }
    in_force_ = state.in_force;
    return decision;
  }

  [[nodiscard]] const plan::Plan& plan() const { return *in_force_; }
  [[nodiscard]] std::int64_t now() const { return now_; }

  // The inputs if the network were known.
  [[nodiscard]] model::Inputs truth() const {
    model::Inputs known = inputs.model;
    known.world = plan::uniform_world(ranks_, network.link);
    known.corrections = {};
    return known;
  }

  std::optional<control::Decision> start() {
    inputs.step = 0;
    auto decision = control::decide(inputs, options, state, book);
    in_force_ = state.in_force;
    return decision;
  }

  SyntheticNetwork network;
  observe::Network observed;
  control::Inputs inputs;
  control::Options options;
  control::State state;
  model::PriceBook& book;
  std::vector<observe::Batch> taken;  // everything that was observed

 private:
  struct Pending {
    std::int64_t due;
    observe::Batch batch;
  };

  observe::Batch batch(const plan::Plan& plan) {
    model::Weight sum;
    std::size_t correction = 0;
    for (const model::Bucket& group : model::groups(plan, inputs.model)) {
      const std::size_t kept = plan.scheme == plan::Scheme::kDense
                                   ? group.length
                                   : plan::entries_of(plan.density, group.length);
      const model::Weight weight = book.weigh(plan, group.length, kept, ranks_);
      correction = correction_index(plan, weight.bytes);
      sum += weight;
    }
    const model::Weight control = model::PriceBook::weigh_control(64, ranks_);
    return {.exchange = {now_, sum.messages, sum.bytes, network.took(sum), correction},
            .control =
                observe::Sample{now_, control.messages, control.bytes, network.took(control), 0}};
  }

  void take(const observe::Batch& batch) {
    taken.push_back(batch);
    if (network.busy.value > 0) take_compute();
    if (observed.take(batch).changed) inputs.changed = true;
    inputs.model.world = observed.world();
    inputs.model.corrections = observed.corrections();
    inputs.noise = observed.spread();
    for (std::size_t i = 0; i < plan::kCorrections; ++i)
      inputs.last_seen.at(i) = observed.last_seen(i).value_or(-1);
  }

  // A busy host computes at its own pace too: eight times slower for a while, now and then.
  void take_compute() {
    if (network.even() < 0.05) slow_down_ = network.even() < 0.3 ? 8 : 1;
    const double factor = std::exp(0.5 * network.normal()) * slow_down_;
    computed_.take(compute_.value * factor, 1);
    inputs.model.compute = computed_.of_a_step();
    inputs.model.compute_uncertainty = computed_.uncertainty();
    for (model::Bucket& bucket : inputs.model.buckets) bucket.ready = inputs.model.compute;
  }

  int ranks_;
  Seconds compute_;
  observe::Compute computed_;
  double slow_down_ = 1;
  std::int64_t now_ = 0;
  std::int64_t sent_ = -1;
  std::optional<plan::Plan> in_force_;
  std::deque<Pending> pending_;
};

}  // namespace pliant::test
