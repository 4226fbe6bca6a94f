// SPDX-License-Identifier: MIT
#include "pliant/observe/readiness.h"

#include <algorithm>
#include <numeric>

namespace pliant::observe {
namespace {

// Backward is about two thirds of a step's compute. Used until the first unit is measured.
constexpr double kUsualSpread = 0.66;

// A level is above 0. Units that are ready together have a lead of 0.
constexpr double kLeastLead = 1e-9;

}  // namespace

void Readiness::set_units(const std::vector<std::size_t>& lengths) {
  if (lengths == lengths_) return;
  lengths_ = lengths;
  leads_.assign(lengths_.empty() ? 0 : lengths_.size() - 1, {});
}

void Readiness::take(std::size_t unit, double lead) {
  if (unit < leads_.size()) leads_[unit].take(std::max(kLeastLead, lead));
}

std::vector<model::Bucket> Readiness::buckets(Seconds compute) const {
  const double spread = !leads_.empty() && leads_.front().known() ? leads_.front().value()
                                                                  : kUsualSpread * compute.value;
  const auto total =
      static_cast<double>(std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0}));
  std::vector<model::Bucket> buckets;
  double before = 0;
  double ready = 0;
  for (std::size_t u = 0; u < lengths_.size(); ++u) {
    const bool is_last = u + 1 == lengths_.size();
    const double share = is_last ? 1 : before / (total - static_cast<double>(lengths_.back()));
    const double lead = !is_last && leads_[u].known() ? leads_[u].value() : spread * (1 - share);
    ready = std::max(ready, compute.value - std::min(lead, compute.value));
    buckets.push_back({.length = lengths_[u], .ready = {ready}});
    before += static_cast<double>(lengths_[u]);
  }
  return buckets;
}

void Readiness::restore(std::span<const double> leads) {
  for (std::size_t u = 0; u < leads_.size(); ++u)
    leads_[u] = u < leads.size() ? Level(leads[u]) : Level();
}

}  // namespace pliant::observe
