// SPDX-License-Identifier: MIT
#include "pliant/control/last_evaluation.h"

#include <algorithm>
#include <cmath>

namespace pliant::control {

std::vector<double> numbers_of(const model::Inputs& inputs) {
  const plan::Link link = model::worst_link(inputs.world);
  std::vector<double> numbers = {link.latency.value,
                                 link.seconds_per_byte,
                                 inputs.compute.value,
                                 static_cast<double>(inputs.world.size),
                                 static_cast<double>(inputs.lanes),
                                 static_cast<double>(inputs.buffers),
                                 inputs.overlap.value_or(-1),
                                 inputs.coding};
  if (!all_equal(inputs.world.links)) {
    for (const plan::Link& each : inputs.world.links) {
      numbers.push_back(each.latency.value);
      numbers.push_back(each.seconds_per_byte);
    }
  }
  for (const model::Bucket& bucket : inputs.buckets) numbers.push_back(bucket.ready.value);
  for (const double factor : inputs.corrections.factors) numbers.push_back(factor);
  return numbers;
}

bool LastEvaluation::moved(const model::Inputs& now, double tolerance) const {
  const std::vector<double> numbers_now = numbers_of(now);
  if (numbers_now.size() != numbers.size()) return true;
  const plan::Link& link = now.world.links.front();
  const double latency_noise =
      2 * link.latency_uncertainty.value / std::max(link.latency.value, 1e-12);
  const double byte_noise =
      2 * link.seconds_per_byte_uncertainty / std::max(link.seconds_per_byte, 1e-18);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double a = numbers_now[i];
    const double b = numbers[i];
    const double noise = i == 0 ? latency_noise : i == 1 ? byte_noise : 0;
    if (std::abs(a - b) > std::max(tolerance, noise) * std::max(std::abs(a), std::abs(b)))
      return true;
  }
  return false;
}

}  // namespace pliant::control
