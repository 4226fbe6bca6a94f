// SPDX-License-Identifier: MIT
#include "tools/pliant-plan/advice.h"

#include <algorithm>
#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/control/front.h"
#include "pliant/plan/code_sizes.h"

namespace pliant::what_if {
namespace {

constexpr double kSlowest = 1e6 / 8;  // bytes per second: 1 Mbit/s
constexpr double kFastest = 1e12 / 8;
constexpr int kHalvings = 16;  // of a factor of a million: 1.0002

// Plain DDP: a ring over each bucket, as Gloo and NCCL do it, beside the backward pass. Nothing is
// coded, and pliant's own lanes do not matter.
model::Prediction plain_ddp(const model::Inputs& inputs, model::PriceBook& book) {
  model::Inputs plain = inputs;
  plain.costs = {};
  plain.corrections = {};
  plain.lanes = 1;
  const plan::Plan ring{.reduce = plan::AllReduce::kRing};
  const plan::World& world = inputs.world;
  const bool equal =
      std::ranges::adjacent_find(world.links, std::ranges::not_equal_to{}) == world.links.end();
  model::Prediction prediction =
      equal ? model::predict(ring, plain, book) : model::predict_exactly(ring, plain, book);
  prediction.plan = plan::Plan{};
  return prediction;
}

// Over all ranks. A ring crosses each island's link once, so that one rank has all of it.
model::Prediction plain_ddp(const Options& options, model::PriceBook& book) {
  if (!options.islands) return plain_ddp(options.inputs, book);
  const Islands& islands = *options.islands;
  model::Inputs flat = options.inputs;
  plan::Link link = flat.world.links.front();
  link.seconds_per_byte /= islands.ranks;
  flat.world = plan::uniform_world(islands.count * islands.ranks, link);
  flat.buckets = islands.buckets;
  flat.compute = islands.compute;
  return plain_ddp(flat, book);
}

// The ranks of an island give each other their slices of the model and of the base: two rings, in
// the thread that trains.
void add_sharing(const Options& options, std::vector<model::Prediction>& all) {
  const Islands& islands = *options.islands;
  const double slice = sizeof(float) * static_cast<double>(options.inputs.buckets.front().length);
  const Seconds sharing =
      2 * (islands.ranks - 1) *
      (islands.inside.latency + Seconds{slice * islands.inside.seconds_per_byte});
  for (model::Prediction& each : all) {
    each.step += sharing / each.plan.every;
    each.exposed += sharing / each.plan.every;
  }
}

bool worth_it(const Options& options, model::PriceBook& book) {
  const Advice advice = advise(options, book);
  return advice.speed_up(advice.best) > kWorthIt;
}

bool is_lossless(const plan::Plan& plan) {
  return plan.scheme == plan::Scheme::kDense && plan.values == plan::ValueCode::kF32;
}

// Of updates: the own part decoded, all payloads as they came, and the sum if it is a short list
// (exchange/union.cc).
double bytes_of_union(const plan::Plan& plan, double payload, int ranks) {
  constexpr double kEntry = sizeof(float) + sizeof(std::uint32_t);
  const double list = ranks * plan.density <= 0.03 ? 2 * kEntry * ranks * plan.density : 0;
  return kEntry * plan.density + ranks * payload + list;
}

// Payloads and decoded entries of one exchange, per parameter. How many of both a scheme holds at
// a time was measured by the growth of processes: 10 million parameters, 4 ranks, 12 plans.
double bytes_of_exchange(const plan::Plan& plan, double parameters, int ranks) {
  const auto length = static_cast<std::uint64_t>(parameters);
  const auto kept = static_cast<std::uint64_t>(std::ceil(parameters * plan.density));
  const bool dense = plan.scheme == plan::Scheme::kDense;
  const double payload =
      static_cast<double>(
          plan::encoded_estimate(length, kept, {plan.indices, plan.values},
                                 dense ? plan::Contents::kValues : plan::Contents::kBoth)
              .value) /
      parameters;
  const double both = payload + (sizeof(float) + sizeof(std::uint32_t)) * plan.density;
  switch (plan.scheme) {
    case plan::Scheme::kDense:
      return 2 * payload + (is_lossless(plan) ? 0 : 4.5 * sizeof(float));
    case plan::Scheme::kUnion:
      if (plan.kind == plan::Kind::kUpdates) return bytes_of_union(plan, payload, ranks);
      return (ranks + 1) * both;
    case plan::Scheme::kShared:
      return 5 * both;
    case plan::Scheme::kSrs:
      return (plan.kind == plan::Kind::kUpdates ? 5.5 : 8) * both;
  }
  return 0;
}

}  // namespace

Range efficiency_range(const model::Prediction& prediction) {
  if (prediction.plan.kind == plan::Kind::kGradients && is_lossless(prediction.plan))
    return {.low = 1, .high = 1};
  const double e = prediction.efficiency;
  return {.low = (e < kLeastTried ? 0.5 : kEfficiencyInTrials.low) * e,
          .high = std::min(1.0, kEfficiencyInTrials.high * e)};
}

Range Advice::speed_up_range(const model::Prediction& prediction) const {
  const Range efficiency = efficiency_range(prediction);
  const double faster = plain.step.value / prediction.step.value;
  return {.low = efficiency.low * faster, .high = efficiency.high * faster};
}

double memory_per_parameter(const plan::Plan& plan, const model::Inputs& inputs) {
  double parameters = 0;
  for (const model::Bucket& bucket : inputs.buckets)
    parameters += static_cast<double>(bucket.length);
  constexpr double kCopy = sizeof(float);
  const double exchange = bytes_of_exchange(plan, parameters, inputs.world.size);
  if (plan.kind == plan::Kind::kUpdates) {
    const int in_flight = std::max(1, (plan.late + plan.every - 1) / plan.every);
    // Base and residual; and once, entries on their way through selecting, trimming and decoding.
    const bool is_union = plan.scheme == plan::Scheme::kUnion;
    const double on_the_way = is_union ? 4.5 * (sizeof(float) + sizeof(std::uint32_t)) : 0;
    return 2 * kCopy + on_the_way * plan.density + in_flight * exchange;
  }
  const double assembled = plan.fuse == plan::Fusion::kBucket ? 0 : kCopy;
  if (is_lossless(plan)) return assembled + exchange;
  // Every bucket keeps its room, which is rounded up.
  constexpr double kRoundedUp = 1.6;
  const bool dense = plan.scheme == plan::Scheme::kDense;
  return kCopy + assembled + (dense ? 1 : kRoundedUp) * exchange;
}

Seconds step_inside(const model::Inputs& inputs, const Islands& islands) {
  model::Inputs island = inputs;
  island.world = plan::uniform_world(islands.ranks, islands.inside);
  model::PriceBook book;
  return plain_ddp(island, book).step;
}

Advice advise(const Options& options, model::PriceBook& book) {
  const auto& asked = options.control;
  auto plans = plan::candidates(options.inputs.world.size, asked.candidates);
  std::erase_if(plans, [&](const plan::Plan& plan) {
    return !control::allowed(plan, asked.candidates.pins, asked.guards, options.inputs.adam);
  });
  if (plans.empty())
    throw InputError(
        "--plan: the guard-rails leave nothing of it; pin what they forbid (see docs/control.md)");
  auto all = model::predict_all(plans, options.inputs, book);
  if (options.islands) add_sharing(options, all);
  Advice advice{.plain = plain_ddp(options, book), .candidates = static_cast<int>(all.size())};
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
  return BytesPerSecond{options.islands ? high * options.islands->ranks : high};
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
