// SPDX-License-Identifier: MIT
#include "pliant/control/front.h"

#include <algorithm>
#include <iterator>

namespace pliant::control {
namespace {

using model::Prediction;

// Those that no other one matches in cost and beats in worth, cheapest first; of equals the first.
// The front is short and nearly all of many thousands are beaten by something on it, so each is
// held against the front so far rather than all sorted.
template <typename Cost, typename Worth>
Choices unbeaten(const Choices& all, Cost cost, Worth worth) {
  Choices kept;  // by rising cost and rising worth
  for (const Prediction* each : all) {
    const double price = cost(*each);
    const auto dearer = std::ranges::upper_bound(kept, price, {},
                                                 [&](const Prediction* one) { return cost(*one); });
    if (dearer != kept.begin() && worth(**std::prev(dearer)) >= worth(*each)) continue;
    const auto same =
        dearer != kept.begin() && cost(**std::prev(dearer)) == price ? std::prev(dearer) : dearer;
    const auto better = std::find_if(
        dearer, kept.end(), [&](const Prediction* one) { return worth(*one) > worth(*each); });
    kept.insert(kept.erase(same, better), each);
  }
  return kept;
}

double step_of(const Prediction& prediction) { return prediction.step.value; }

}  // namespace

Choices all_of(std::span<const Prediction> predictions) {
  Choices all;
  all.reserve(predictions.size());
  for (const Prediction& each : predictions) all.push_back(&each);
  return all;
}

std::vector<Prediction> front(std::span<const Prediction> all) {
  std::vector<Prediction> kept;
  for (const Prediction* each :
       unbeaten(all_of(all), step_of, [](const Prediction& p) { return p.efficiency; }))
    kept.push_back(*each);
  return kept;
}

const Prediction* fastest(const Choices& all) {
  const Prediction* best = nullptr;
  for (const Prediction* each : all) {
    if (best == nullptr || each->speed() > best->speed()) best = each;
  }
  return best;
}

const Prediction* knee(const Choices& all) {
  Choices gradients;
  std::ranges::copy_if(all, std::back_inserter(gradients), [](const Prediction* each) {
    return each->plan.kind == plan::Kind::kGradients;
  });
  const auto points = unbeaten(gradients, step_of, [](const Prediction& p) { return p.gain; });
  if (points.empty()) return nullptr;
  const auto quickest = step_of(*points.front());
  const auto slowest = step_of(*points.back());
  const double most = 1 / points.front()->gain;
  const double least = 1 / points.back()->gain;
  const auto scaled = [](double x, double from, double to) {
    return to > from ? (x - from) / (to - from) : 0;
  };
  return *std::ranges::min_element(points, {}, [&](const Prediction* p) {
    return scaled(step_of(*p), quickest, slowest) + scaled(1 / p->gain, least, most);
  });
}

const Prediction* densest(const Choices& all, Seconds longest_step) {
  const Prediction* best = nullptr;
  for (const Prediction* each : all) {
    if (each->step > longest_step) continue;
    const bool denser = best == nullptr || each->plan.density > best->plan.density;
    if (denser || (each->plan.density == best->plan.density && each->speed() > best->speed()))
      best = each;
  }
  return best;
}

}  // namespace pliant::control
