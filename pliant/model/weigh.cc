// SPDX-License-Identifier: MIT
#include "pliant/model/weigh.h"

#include <algorithm>

#include "pliant/model/codec.h"
#include "pliant/plan/density.h"
#include "pliant/plan/fusion.h"

namespace pliant::model {

std::vector<Bucket> groups(const plan::Plan& plan, const Inputs& inputs) {
  std::vector<std::size_t> lengths;
  for (const Bucket& bucket : inputs.buckets) lengths.push_back(bucket.length);
  const auto fusion = plan.kind == plan::Kind::kUpdates ? plan::Fusion::kAll : plan.fuse;
  std::vector<Bucket> all;
  std::size_t next = 0;
  for (const std::size_t count : plan::group_counts(fusion, lengths)) {
    Bucket group{.ready = inputs.buckets[next + count - 1].ready};
    for (const std::size_t last = next + count; next < last; ++next) group.length += lengths[next];
    all.push_back(group);
  }
  return all;
}

std::size_t kept_of(const plan::Plan& plan, std::size_t length) {
  return plan.scheme == plan::Scheme::kDense ? length : plan::entries_of(plan.density, length);
}

StepWeight weigh_step(const plan::Plan& plan, const Inputs& inputs, PriceBook& book) {
  StepWeight step;
  double largest = 0;
  const auto add = [&](const plan::Plan& one, std::size_t length) {
    const Weight weight = book.weigh(one, length, kept_of(one, length), inputs.world.size);
    step.weight += weight;
    return weight.bytes;
  };
  for (const Bucket& group : groups(plan, inputs))
    largest = std::max(largest, add(plan, group.length));
  if (plan.kind == plan::Kind::kUpdates && inputs.buffers > 0)
    (void)add(plan::beside(plan, inputs.buffers), inputs.buffers);
  step.correction = correction_index(plan, largest);
  return step;
}

Seconds coding_of(const plan::Plan& plan, const Inputs& inputs) {
  Seconds sum{};
  for (const Bucket& group : groups(plan, inputs)) {
    const Codec work =
        codec(plan, group.length, kept_of(plan, group.length), inputs.world.size, inputs.costs);
    sum += plan.kind == plan::Kind::kUpdates ? work.depart + work.land : work.total();
  }
  return sum;
}

plan::Link worst_link(const plan::World& world) {
  plan::Link worst = world.links.front();
  for (const plan::Link& link : world.links) {
    worst.latency = std::max(worst.latency, link.latency);
    worst.seconds_per_byte = std::max(worst.seconds_per_byte, link.seconds_per_byte);
  }
  return worst;
}

}  // namespace pliant::model
