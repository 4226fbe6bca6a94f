// SPDX-License-Identifier: MIT
#include "pliant/model/efficiency.h"

#include <algorithm>
#include <cmath>

namespace pliant::model {
namespace {

constexpr double kGainPower = 0.2;
constexpr double kReachedByInt4 = 0.6;  // of the entries, at most; docs/model.md

}  // namespace

double gain_at(const GainCurve& curve, double density) {
  if (density >= 1) return 1;
  const auto& points = curve.points;
  if (points.empty()) return std::pow(density, kGainPower);
  const auto above =
      std::ranges::lower_bound(points, density, {}, &std::pair<double, double>::first);
  if (above == points.begin())
    return points.front().second * std::pow(density / points.front().first, kGainPower);
  const auto below = above - 1;
  const std::pair<double, double> next = above == points.end() ? std::pair{1.0, 1.0} : *above;
  if (next.first <= below->first) return next.second;
  const double share = std::log(density / below->first) / std::log(next.first / below->first);
  return below->second + share * (next.second - below->second);
}

double union_fraction(double density, int size, std::optional<double> overlap) {
  const double by_chance = 1 - std::pow(1 - density, size);
  return density +
         (1 - std::clamp(overlap.value_or(kAssumedOverlap), 0.0, 1.0)) * (by_chance - density);
}

double overlap_of(double updated_fraction, double density, int size) {
  const double by_chance = 1 - std::pow(1 - density, size);
  if (by_chance <= density) return 1;
  return std::clamp(1 - (updated_fraction - density) / (by_chance - density), 0.0, 1.0);
}

double updated_fraction(const plan::Plan& plan, int size, std::optional<double> overlap) {
  if (plan.scheme == plan::Scheme::kDense) return 1;
  const double density =
      plan.values == plan::ValueCode::kInt4 ? std::min(plan.density, kReachedByInt4) : plan.density;
  return plan.scheme == plan::Scheme::kUnion ? union_fraction(density, size, overlap) : density;
}

double efficiency(const plan::Plan& plan, double updated_fraction, bool adam,
                  const EfficiencyOptions& options) {
  const double q = plan.scheme == plan::Scheme::kShared ? options.q_shared : options.q_sparse;
  const double fraction =
      adam ? updated_fraction : std::min(updated_fraction / options.enough, 1.0);
  if (plan.kind == plan::Kind::kGradients)
    return q * std::pow(fraction, adam ? options.p_gradients_adam : options.p_gradients);
  const double p = adam ? options.p_updates_adam / (plan.every * plan.every) : options.p_updates;
  const double age = (plan.every - 1) / 2.0 + plan.late;
  const double aged = adam ? std::pow(age / options.age_scale_adam, options.age_power_adam)
                           : std::pow(age / options.age_scale, options.age_power);
  return q * std::pow(fraction, p) / (1 + aged);
}

}  // namespace pliant::model
