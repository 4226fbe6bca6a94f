// SPDX-License-Identifier: MIT
// Messages, bytes and coding time of the exchanges of one step, without playing the step.
#pragma once

#include <cstddef>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/model/coefficients.h"
#include "pliant/model/inputs.h"
#include "pliant/plan/plan.h"

namespace pliant::model {

// The groups of buckets that travel together, each with the time at which its last bucket is ready.
[[nodiscard]] std::vector<Bucket> groups(const plan::Plan& plan, const Inputs& inputs);

// Entries that a rank sends of `length` entries.
[[nodiscard]] std::size_t kept_of(const plan::Plan& plan, std::size_t length);

// Weight of all exchanges of an exchanging step, and the index of the correction of their time:
// that of the largest exchange, which takes most of it.
struct StepWeight {
  Weight weight = {};
  std::size_t correction = 0;
};
[[nodiscard]] StepWeight weigh_step(const plan::Plan& plan, const Inputs& inputs, PriceBook& book);

// Time for coding an exchanging step's contribution, by `costs` alone: all of it with gradients,
// the training thread's share with updates.
[[nodiscard]] Seconds coding_of(const plan::Plan& plan, const Inputs& inputs);

// A link with the largest latency and the lowest bandwidth of all.
[[nodiscard]] plan::Link worst_link(const plan::World& world);

}  // namespace pliant::model
