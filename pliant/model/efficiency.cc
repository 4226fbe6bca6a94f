// SPDX-License-Identifier: MIT
#include "pliant/model/efficiency.h"

#include <algorithm>
#include <cmath>

namespace pliant::model {
namespace {

constexpr double kGainPower = 0.2;
constexpr double kNextToNothing = 1e-6;
constexpr double kWorthFirst = 16;  // a step that is worth 0.74 instead of 0.96 must be 64x shorter
constexpr double kReachedByInt4 = 0.6;  // of the entries, at most; docs/model.md

// Codes do not count as sparse here: int4 keeps all entries, and what it costs Adam is known.
// int2, which no plan has unless it is pinned, is taken for int4.
double efficiency_at_end(const plan::Plan& plan, double updated_fraction, bool adam,
                         const EfficiencyOptions& options) {
  const bool updates = plan.kind == plan::Kind::kUpdates;
  const double q = plan.scheme == plan::Scheme::kShared ? options.q_shared : options.q_sparse;
  const double p_adam =
      updates ? options.p_updates_adam / (plan.every * plan.every) : options.p_gradients_adam;
  const double p = adam ? p_adam : updates ? options.p_updates : options.p_gradients;
  const double sparse = plan.density == 1 ? 1 : q * std::pow(updated_fraction, p);
  if (!updates)
    return adam && plan::is_coarse(plan.values) ? sparse * options.end_int4_adam : sparse;
  const double scale = adam ? options.end_age_scale_adam : options.end_age_scale;
  return (adam ? options.end_own_adam : 1) * sparse / (1 + age_of(plan) / scale);
}

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
      plan::is_coarse(plan.values) ? std::min(plan.density, kReachedByInt4) : plan.density;
  return plan.scheme == plan::Scheme::kUnion ? union_fraction(density, size, overlap) : density;
}

double efficiency(const plan::Plan& plan, double updated_fraction, bool adam,
                  const EfficiencyOptions& options) {
  if (options.at_end) return efficiency_at_end(plan, updated_fraction, adam, options);
  const double q = plan.scheme == plan::Scheme::kShared ? options.q_shared : options.q_sparse;
  const double fraction =
      adam ? updated_fraction : std::min(updated_fraction / options.enough, 1.0);
  if (plan.kind == plan::Kind::kGradients)
    return q * std::pow(fraction, adam ? options.p_gradients_adam : options.p_gradients);
  const double p = adam ? options.p_updates_adam / (plan.every * plan.every) : options.p_updates;
  const double age = age_of(plan);
  const double aged = adam ? std::pow(age / options.age_scale_adam, options.age_power_adam)
                           : std::pow(age / options.age_scale, options.age_power);
  return q * std::pow(fraction, p) / (1 + aged);
}

double counted(double worth, double least) {
  if (least <= 0) return worth;
  return worth >= least ? 1 : kNextToNothing * std::pow(worth, kWorthFirst);
}

}  // namespace pliant::model
