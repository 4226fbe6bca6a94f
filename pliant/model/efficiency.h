// SPDX-License-Identifier: MIT
// How much one step under a plan is worth, against a dense step: q(scheme) x (updated fraction)^p x every(H) x late(d). All of
// it options; the starting values are what trials with a CNN, a small ResNet and a transformer showed (docs/model.md).
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "pliant/plan/plan.h"

namespace pliant::model {

struct EfficiencyOptions {
  // The dial between speed and accuracy: how much a smaller updated fraction costs. Momentum sits in front of the compressor
  // with updates and behind it with gradients, which then feel what is left out twice as much.
  double p_updates = 0.06;
  double p_gradients = 0.12;
  // Union and srs keep what is largest somewhere; shared keeps what is largest at one rank.
  double q_sparse = 1;
  double q_shared = 0.85;
  // every = 1, 2, 4, 8. Between them the logarithm decides; beyond, each doubling costs what the last one did.
  std::array<double, 4> every = {1, 0.99, 0.97, 0.9};
  std::array<double, 4> every_adam = {1, 0.95, 0.85, 0.75};
  // late(d) = 1 / (1 + d / scale).
  double late_scale = 25;
  double late_scale_adam = 8;
  bool operator==(const EfficiencyOptions&) const = default;
};

// Which share of accumulated's energy the largest entries hold, at the densities where it is known.
struct GainCurve {
  std::vector<std::pair<double, double>> points = {};  // density, gain; by rising density
  bool operator==(const GainCurve&) const = default;
};

// Between two points linear in the logarithm of density, outside them by a power of density. Without points density^0.2: what the
// published trials report (0.6 at 10 %, 0.25 at 0.1 %), good enough to order densities and for nothing else.
[[nodiscard]] double gain_at(const GainCurve& curve, double density);

// What a union of N selections covers. They share between everything (`overlap` 1: r) and no more than chance (0: 1 - (1-r)^N). As long as
// nobody has measured it, halfway.
inline constexpr double kAssumedOverlap = 0.5;
[[nodiscard]] double union_fraction(double density, int size, std::optional<double> overlap);
// The other way round: which overlap explains a measured updated fraction.
[[nodiscard]] double overlap_of(double updated_fraction, double density, int size);

[[nodiscard]] double updated_fraction(const plan::Plan& plan, int size, std::optional<double> overlap);

[[nodiscard]] double efficiency(const plan::Plan& plan, double updated_fraction, bool adam, const EfficiencyOptions& options);

}  // namespace pliant::model
