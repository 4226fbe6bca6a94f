// SPDX-License-Identifier: MIT
// Efficiency of a plan: progress of one step relative to a dense step, q(scheme) x
// fraction(updated) x age(every, late). All parameters are options. Their defaults come from trials
// with a CNN, a small ResNet and a transformer (docs/model.md).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "pliant/plan/plan.h"

namespace pliant::model {

struct EfficiencyOptions {
  // The dial between speed and accuracy: how much a smaller updated fraction costs. Momentum sits
  // in front of the compressor with updates and behind it with gradients, which then lose twice as
  // much by leaving entries out.
  double p_updates = 0.1;
  double p_gradients = 0.2;
  // fraction(f) = (f / enough)^p: once a step updates this share of all entries, more of them make
  // no difference.
  double enough = 0.2;
  // Adam divides by the second moment: one step moves all entries about alike, so the largest are
  // no better than others, and the moment of entries that come seldom is wrong. There fraction(f) =
  // f^p, and with updates p counts by 1 / every^2: over several steps entries come apart.
  double p_updates_adam = 0.3;
  double p_gradients_adam = 0.3;
  // Union and srs send entries that are largest on any rank; shared those that are largest on one
  // rank.
  double q_sparse = 1;
  double q_shared = 0.85;
  // age(H, d) = 1 / (1 + (a / scale)^power), a = (H - 1) / 2 + d: how many steps ago, on average,
  // others made the progress that lands.
  double age_scale = 14;
  double age_power = 2;
  double age_scale_adam = 11;  // with lengthened steps
  double age_power_adam = 2;
  void turn_all_p(double p) { p_updates = p_gradients = p_updates_adam = p_gradients_adam = p; }
  bool operator==(const EfficiencyOptions&) const = default;
};

// Share of accumulated's energy that the largest entries hold, at the densities where it is known.
struct GainCurve {
  std::vector<std::pair<double, double>> points = {};  // density, gain; by rising density
  bool operator==(const GainCurve&) const = default;
};

// Between two points linear in the logarithm of density, outside them by a power of density.
// Without points density^0.2: what the published trials report (0.6 at 10 %, 0.25 at 0.1 %), good
// enough to order densities and for nothing else.
[[nodiscard]] double gain_at(const GainCurve& curve, double density);

// Overlap of the N selections of a union of density r. It updates r of all entries if they are the
// same (`overlap` 1), and 1 - (1-r)^N if they agree by chance only (0). The middle is assumed until
// it is measured.
inline constexpr double kAssumedOverlap = 0.5;
[[nodiscard]] double union_fraction(double density, int size, std::optional<double> overlap);
// The other way round: which overlap explains a measured updated fraction.
[[nodiscard]] double overlap_of(double updated_fraction, double density, int size);

// Values that int4 rounds to zero, because the largest of their block is much larger, do not count
// as updated.
[[nodiscard]] double updated_fraction(const plan::Plan& plan, int size,
                                      std::optional<double> overlap);

[[nodiscard]] double efficiency(const plan::Plan& plan, double updated_fraction, bool adam,
                                const EfficiencyOptions& options);

}  // namespace pliant::model
