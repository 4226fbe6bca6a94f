// SPDX-License-Identifier: MIT
#include "pliant/engine/gradient_groups.h"

#include <algorithm>

#include "pliant/common/errors.h"

namespace pliant::engine {

GradientGroups::GradientGroups(std::vector<std::size_t> parameter_sizes)
    : sizes_(std::move(parameter_sizes)), arrangement_(sizes_, default_units(sizes_)) {}

void GradientGroups::make_residual() {
  if (residual_.size() > 0) return;
  residual_ = Buffer<float>(arrangement_.size());
  std::ranges::fill(residual_.span(), 0.0F);
}

void GradientGroups::set_units(Units units) {
  Arrangement next(sizes_, std::move(units));
  groups_.clear();
  fusion_.reset();
  rearrange(arrangement_, next, residual_.span());
  arrangement_ = std::move(next);
}

void GradientGroups::form(plan::Fusion fusion) {
  if (fusion_ == fusion) return;
  make_residual();
  groups_.clear();
  group_of_.assign(sizes_.size(), 0);
  fusion_ = fusion;
  for (const Range& units : arrangement_.groups(fusion)) {
    GradientGroup group{.entries = arrangement_.entries(units)};
    for (std::size_t u = units.begin; u < units.end(); ++u) {
      const auto& parameters = arrangement_.units()[u];
      group.parameters.insert(group.parameters.end(), parameters.begin(), parameters.end());
      for (const int parameter : parameters)
        group_of_[static_cast<std::size_t>(parameter)] = groups_.size();
    }
    group.residual = std::make_unique<exchange::ResidualGroup>(
        residual_.span().subspan(group.entries.begin, group.entries.count));
    groups_.push_back(std::move(group));
  }
  for (std::size_t g = 0; g < std::min(groups_.size(), voted_.size()); ++g) {
    if (voted_[g] >= 0) groups_[g].residual->voted = voted_[g];
  }
  voted_.clear();
}

std::size_t GradientGroups::group_of(int parameter) const {
  return group_of_[static_cast<std::size_t>(parameter)];
}

std::vector<std::size_t> GradientGroups::unit_lengths() const {
  std::vector<std::size_t> lengths;
  for (std::size_t u = 0; u < arrangement_.units().size(); ++u)
    lengths.push_back(arrangement_.entries({u, 1}).count);
  return lengths;
}

std::string GradientGroups::identity() const {
  std::string identity;
  for (const auto& unit : arrangement_.units()) {
    identity += '/';
    for (const int parameter : unit) identity += std::to_string(parameter) + ',';
  }
  return identity;
}

std::span<float> GradientGroups::residual_of(int parameter) const {
  const Range place = arrangement_.place(parameter);
  return residual_.span().subspan(place.begin, place.count);
}

std::size_t GradientGroup::scratch_bytes() const {
  return assembled.size() * sizeof(float) + residual->scratch_bytes();
}

void GradientGroups::write(State& state) const {
  state.units = arrangement_.units();
  for (const GradientGroup& group : groups_)
    state.voted.push_back(group.residual->voted.value_or(-1));
  for (std::size_t p = 0; p < sizes_.size(); ++p) {
    auto& saved = state.residual.emplace_back();
    if (residual_.size() == 0) continue;
    const auto span = residual_of(static_cast<int>(p));
    const bool empty = std::ranges::all_of(span, [](float value) { return value == 0; });
    if (!empty) saved.assign(span.begin(), span.end());
  }
}

void GradientGroups::read(const State& state) {
  require(state.residual.size() == sizes_.size(),
          "engine: a state of {} parameters for a model of {}", state.residual.size(),
          sizes_.size());
  for (std::size_t p = 0; p < sizes_.size(); ++p) {
    const std::size_t entries = state.residual[p].size();
    require(entries == 0 || entries == sizes_[p],
            "engine: a residual of {} entries for parameter {}, which has {}", entries, p,
            sizes_[p]);
  }
  arrangement_ = Arrangement(sizes_, state.units);
  groups_.clear();
  fusion_.reset();
  voted_ = state.voted;
  residual_ = {};
  if (std::ranges::all_of(state.residual, [](const auto& part) { return part.empty(); })) return;
  make_residual();
  for (std::size_t p = 0; p < sizes_.size(); ++p)
    std::ranges::copy(state.residual[p], residual_of(static_cast<int>(p)).begin());
}

}  // namespace pliant::engine
