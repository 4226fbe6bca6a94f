// SPDX-License-Identifier: MIT
#include "pliant/control/front.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pliant::control {
namespace {

using model::Prediction;

// Those that no other one matches in cost and beats in worth, cheapest first.
template <typename Cost, typename Worth>
std::vector<const Prediction*> unbeaten(std::vector<const Prediction*> all, Cost cost, Worth worth) {
  std::ranges::stable_sort(
      all, [&](const Prediction* a, const Prediction* b) { return cost(*a) != cost(*b) ? cost(*a) < cost(*b) : worth(*a) > worth(*b); });
  std::vector<const Prediction*> kept;
  double best = -std::numeric_limits<double>::infinity();
  for (const Prediction* each : all) {
    if (worth(*each) <= best) continue;
    best = worth(*each);
    kept.push_back(each);
  }
  return kept;
}

double step_of(const Prediction& prediction) { return prediction.step.value; }

}  // namespace

std::vector<Prediction> front(std::span<const Prediction> all) {
  std::vector<const Prediction*> pointers;
  for (const Prediction& each : all) pointers.push_back(&each);
  std::vector<Prediction> kept;
  for (const Prediction* each : unbeaten(std::move(pointers), step_of, [](const Prediction& p) { return p.efficiency; }))
    kept.push_back(*each);
  return kept;
}

const Prediction* fastest(std::span<const Prediction> all) {
  const Prediction* best = nullptr;
  for (const Prediction& each : all) {
    if (best == nullptr || each.speed() > best->speed()) best = &each;
  }
  return best;
}

const Prediction* knee(std::span<const Prediction> all) {
  std::vector<const Prediction*> gradients;
  for (const Prediction& each : all) {
    if (each.plan.kind == plan::Kind::kGradients) gradients.push_back(&each);
  }
  const auto points = unbeaten(std::move(gradients), step_of, [](const Prediction& p) { return p.gain; });
  if (points.empty()) return nullptr;
  const auto [quickest, slowest] = std::pair{step_of(*points.front()), step_of(*points.back())};
  const auto [most, least] = std::pair{1 / points.front()->gain, 1 / points.back()->gain};
  const auto scaled = [](double x, double from, double to) { return to > from ? (x - from) / (to - from) : 0; };
  return *std::ranges::min_element(
      points, {}, [&](const Prediction* p) { return scaled(step_of(*p), quickest, slowest) + scaled(1 / p->gain, least, most); });
}

const Prediction* densest(std::span<const Prediction> all, Seconds longest_step) {
  const Prediction* best = nullptr;
  for (const Prediction& each : all) {
    if (each.step > longest_step) continue;
    const bool denser = best == nullptr || each.plan.density > best->plan.density;
    if (denser || (each.plan.density == best->plan.density && each.speed() > best->speed())) best = &each;
  }
  return best;
}

bool guarded(const plan::Plan& plan, const plan::Pins& pins, const Guards& guards, bool adam) {
  const bool updates = plan.kind == plan::Kind::kUpdates;
  const bool star = plan.scheme == plan::Scheme::kShared && plan.leader == plan::Leader::kStar;
  const bool careful = !updates || star || plan.every >= guards.sparse_every;
  if (!pins.density && plan.density < (careful ? guards.least_density_gradients : guards.least_density_updates)) return false;
  if (!pins.every && plan.every > guards.most_every) return false;
  return pins.late || plan.late <= (adam ? guards.most_late_adam : guards.most_late);
}

}  // namespace pliant::control
