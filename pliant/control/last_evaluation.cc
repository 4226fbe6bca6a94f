// SPDX-License-Identifier: MIT
#include "pliant/control/last_evaluation.h"

#include <algorithm>
#include <cmath>

namespace pliant::control {
namespace {

struct Number {
  double value;
  double uncertainty = 0;  // one standard deviation, relative
};

std::vector<Number> row_of(const model::Inputs& inputs) {
  const plan::Link link = model::worst_link(inputs.world);
  std::vector<Number> row = {
      {link.latency.value, link.latency_uncertainty.value / std::max(link.latency.value, 1e-12)},
      {link.seconds_per_byte,
       link.seconds_per_byte_uncertainty / std::max(link.seconds_per_byte, 1e-18)},
      {inputs.compute.value, inputs.compute_uncertainty},
      {static_cast<double>(inputs.world.size)},
      {static_cast<double>(inputs.lanes)},
      {static_cast<double>(inputs.buffers)},
      {inputs.overlap.value_or(-1)},
      {inputs.coding, inputs.coding_uncertainty}};
  if (!all_equal(inputs.world.links)) {
    for (const plan::Link& each : inputs.world.links) {
      row.push_back({each.latency.value});
      row.push_back({each.seconds_per_byte});
    }
  }
  for (const model::Bucket& bucket : inputs.buckets)
    row.push_back({bucket.ready.value, inputs.compute_uncertainty});
  for (const double factor : inputs.corrections.factors) row.push_back({factor});
  return row;
}

}  // namespace

std::vector<double> numbers_of(const model::Inputs& inputs) {
  std::vector<double> numbers;
  for (const Number& number : row_of(inputs)) numbers.push_back(number.value);
  return numbers;
}

bool LastEvaluation::moved(const model::Inputs& now, double tolerance) const {
  const std::vector<Number> row = row_of(now);
  if (row.size() != numbers.size()) return true;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double a = row[i].value;
    const double b = numbers[i];
    const double least = std::max(tolerance, 2 * row[i].uncertainty);
    if (std::abs(a - b) > least * std::max(std::abs(a), std::abs(b))) return true;
  }
  return false;
}

}  // namespace pliant::control
