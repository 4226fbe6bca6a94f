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

  // Goal steps: what counts is the loss at the end of a schedule of so many steps, whose rate falls
  // to zero. By that measure horizon and lateness cost more, and cost it sooner, than by the time
  // to a loss on the way (docs/model.md): age(a) = 1 / (1 + a / scale), fraction(f) = f^p.
  bool at_end = false;
  double end_age_scale = 14;
  double end_age_scale_adam = 12;
  // Each rank's own Adam, even with every=1 and late=0: its second moments are those of its own
  // gradients.
  double end_own_adam = 0.96;
  // Adam with averaged gradients in int4: small ones come as rare large ones.
  double end_int4_adam = 0.98;
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

// Mean number of steps between progress on one rank and its landing on the others.
[[nodiscard]] constexpr double age_of(const plan::Plan& plan) {
  return plan.kind == plan::Kind::kUpdates ? (plan.every - 1) / 2.0 + plan.late : 0;
}

[[nodiscard]] double efficiency(const plan::Plan& plan, double updated_fraction, bool adam,
                                const EfficiencyOptions& options);

// A step's worth as the goal counts it: with goal time (`least` = 0) as it is. With goal steps all
// plans that are worth `least` or more count alike. The others count so little that one of them is
// chosen only where pins leave nothing else; then worth decides first, and time after it.
[[nodiscard]] double counted(double worth, double least);

}  // namespace pliant::model
