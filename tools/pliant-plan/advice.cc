// SPDX-License-Identifier: MIT
#include "tools/pliant-plan/advice.h"

#include <algorithm>
#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/control/front.h"

namespace pliant::what_if {
namespace {

constexpr double kSlowest = 1e6 / 8;  // bytes per second: 1 Mbit/s
constexpr double kFastest = 1e12 / 8;
constexpr int kHalvings = 16;  // of a factor of a million: 1.0002

bool is_plain(const plan::Plan& plan) {
  return plan.scheme == plan::Scheme::kDense && plan.reduce == plan::AllReduce::kBackend &&
         plan.every == 1 && plan.late == 0;
}

bool worth_it(const Options& options, model::PriceBook& book) {
  const Advice advice = advise(options, book);
  return advice.speed_up(advice.best) > kWorthIt;
}

}  // namespace

Advice advise(const Options& options, model::PriceBook& book) {
  const auto& asked = options.control;
  auto plans = plan::candidates(options.inputs.world.size, asked.candidates);
  std::erase_if(plans, [&](const plan::Plan& plan) {
    return !control::allowed(plan, asked.candidates.pins, asked.guards, options.inputs.adam);
  });
  if (plans.empty())
    throw InputError(
        "--plan: the guard-rails leave nothing of it; pin what they forbid (see docs/control.md)");
  const auto all = model::predict_all(plans, options.inputs, book);
  Advice advice{.plain = all.front(), .candidates = static_cast<int>(all.size())};
  bool found_plain = false;
  for (const auto& each : all) {
    if (!is_plain(each.plan) || (found_plain && each.speed() <= advice.plain.speed())) continue;
    advice.plain = each;
    found_plain = true;
  }
  for (const plan::Scheme scheme : plan::kSchemes) {
    control::Choices of_scheme;
    for (const auto& each : all) {
      if (each.plan.scheme == scheme) of_scheme.push_back(&each);
    }
    const auto* best = asked.policy == control::Policy::kKnee ? control::knee(of_scheme)
                                                              : control::fastest(of_scheme);
    if (best != nullptr) advice.schemes.push_back(*best);
  }
  std::ranges::stable_sort(advice.schemes, std::ranges::greater{}, &model::Prediction::speed);
  const auto everything = control::all_of(all);
  const auto* knee = asked.policy == control::Policy::kKnee ? control::knee(everything) : nullptr;
  advice.best = knee != nullptr ? *knee : *control::fastest(everything);
  if (options.as_logged && options.log->last_plan)
    advice.replay = model::predict_exactly(*options.log->last_plan, options.inputs, book);
  return advice;
}

std::optional<BytesPerSecond> break_even(const Options& options, model::PriceBook& book) {
  Options scaled = options;
  const double slowest = model::worst_link(options.inputs.world).seconds_per_byte;
  if (slowest <= 0) return std::nullopt;
  const auto pays_at = [&](double bytes_per_second) {
    for (std::size_t r = 0; r < scaled.inputs.world.links.size(); ++r) {
      scaled.inputs.world.links[r].seconds_per_byte =
          options.inputs.world.links[r].seconds_per_byte / slowest / bytes_per_second;
    }
    return worth_it(scaled, book);
  };
  double low = kSlowest;
  double high = kFastest;
  if (!pays_at(low) || pays_at(high)) return std::nullopt;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(low * high);
    (pays_at(middle) ? low : high) = middle;
  }
  return BytesPerSecond{high};
}

std::vector<plan::Link> sweep_links() {
  std::vector<plan::Link> links;
  for (const double megabits : {10.0, 100.0, 1000.0, 10'000.0, 25'000.0}) {
    for (const double milliseconds : {0.1, 1.0, 10.0, 50.0})
      links.push_back(plan::link_of(from_bits_per_second(megabits * 1e6), {milliseconds * 1e-3}));
  }
  return links;
}

}  // namespace pliant::what_if
