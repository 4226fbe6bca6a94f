// SPDX-License-Identifier: MIT
#include "pliant/plan/plan.h"

#include <initializer_list>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/plan/density.h"

namespace pliant::plan {
namespace {

// Pins the part to the first wish that contradicts nothing pinned so far, unless it is pinned
// already.
template <typename T>
void choose(Pins& pins, std::optional<T> Pins::*part, std::initializer_list<T> wishes) {
  if (pins.*part) return;
  for (const T wish : wishes) {
    pins.*part = wish;
    if (!contradiction(pins)) return;
  }
  pins.*part = std::nullopt;
}

// Kind and scheme first: they say which other parts there are. Every list of wishes ends with a
// word that goes with whatever consistent pins are left, so one is always found.
Pins chosen(Pins pins, const Plan& defaults) {
  choose(pins, &Pins::kind, {defaults.kind, Kind::kGradients, Kind::kUpdates});
  choose(pins, &Pins::scheme,
         {defaults.scheme, Scheme::kDense, Scheme::kUnion, Scheme::kSrs, Scheme::kShared});
  if (pins.kind == Kind::kUpdates) {
    // A late= that needs an every= as large gets one.
    choose(pins, &Pins::every, {defaults.every, pins.late.value_or(1)});
    choose(pins, &Pins::late, {defaults.late, 0});
  } else {
    choose(pins, &Pins::fuse, {defaults.fuse});
  }
  const Scheme scheme = *pins.scheme;
  if (scheme == Scheme::kShared) choose(pins, &Pins::leader, {defaults.leader});
  if (has_scatter(scheme)) choose(pins, &Pins::scatter, {defaults.scatter});
  if (has_gather(scheme)) choose(pins, &Pins::gather, {defaults.gather});
  if (has_bcast(scheme)) {
    choose(pins, &Pins::bcast, {defaults.bcast, Broadcast::kDoubleTree});
    if (defaults.segments > 0) choose(pins, &Pins::segments, {defaults.segments});
  }
  if (has_reduce(scheme))
    choose(pins, &Pins::reduce, {defaults.reduce, AllReduce::kHalvingDoubling});
  if (scheme != Scheme::kDense) {
    choose(pins, &Pins::density, {defaults.density});
    choose(pins, &Pins::indices, {defaults.indices});
  }
  choose(pins, &Pins::values, {defaults.values, ValueCode::kF32});
  return pins;
}

}  // namespace

Plan parse_plan(std::string_view text, std::string_view what) {
  const Pins pins = parse_pins(text, what);
  const auto missing = [&](std::string_view part) {
    fail_at(what, text, text.size(), 0, fmt::format("{} is missing from a complete plan", part));
  };
  if (!pins.kind) missing("the kind, gradients or updates,");
  if (!pins.scheme) missing("the scheme (dense, union, shared/star, shared/var or srs)");
  if (!pins.density && pins.scheme != Scheme::kDense) missing("density=, as in density=1%,");
  return complete(pins);
}

std::string to_string(const Plan& plan) {
  Pins pins = pins_of(plan);
  if (pins.gather == AllGather::kBruck) pins.gather.reset();
  if (plan.scheme == Scheme::kDense) pins.density.reset();
  return to_string(pins);
}

std::uint64_t hash(const Plan& plan) { return pliant::hash(std::string_view(to_string(plan))); }

Pins pins_of(const Plan& plan) {
  Pins pins{
      .kind = plan.kind, .scheme = plan.scheme, .density = plan.density, .values = plan.values};
  if (plan.kind == Kind::kUpdates) {
    pins.every = plan.every;
    pins.late = plan.late;
  } else {
    pins.fuse = plan.fuse;
  }
  if (plan.scheme == Scheme::kShared) pins.leader = plan.leader;
  if (has_scatter(plan.scheme)) pins.scatter = plan.scatter;
  if (has_gather(plan.scheme)) pins.gather = plan.gather;
  if (has_bcast(plan.scheme)) pins.bcast = plan.bcast;
  if (has_bcast(plan.scheme) && plan.segments > 0) pins.segments = plan.segments;
  if (has_reduce(plan.scheme)) pins.reduce = plan.reduce;
  if (plan.scheme != Scheme::kDense) pins.indices = plan.indices;
  return pins;
}

Plan complete(const Pins& pins, const Plan& defaults) {
  const auto why = contradiction(pins);
  require(!why, "completing '{}': {}", to_string(pins), why.value_or(""));
  const Pins all = chosen(pins, defaults);
  const Plan base;
  return {.kind = *all.kind,
          .every = all.every.value_or(base.every),
          .late = all.late.value_or(base.late),
          .scheme = *all.scheme,
          .leader = all.leader.value_or(base.leader),
          .scatter = all.scatter.value_or(base.scatter),
          .gather = all.gather.value_or(base.gather),
          .bcast = all.bcast.value_or(base.bcast),
          .segments = all.segments.value_or(base.segments),
          .reduce = all.reduce.value_or(base.reduce),
          .density = all.density.value_or(base.density),
          .values = *all.values,
          .indices = all.indices.value_or(base.indices),
          .fuse = all.fuse.value_or(base.fuse)};
}

void check(const Plan& plan) {
  require(plan.density >= kMinDensity && plan.density <= 1,
          "a plan with density {}: not in {} ... 1", plan.density, kMinDensity);
  require(plan.every >= 1 && plan.every <= kMaxEvery, "a plan with every={}: not in 1 ... {}",
          plan.every, kMaxEvery);
  require(plan.late >= 0 && plan.late <= kMaxLate, "a plan with late={}: not in 0 ... {}",
          plan.late, kMaxLate);
  require(plan.segments >= 0 && plan.segments <= kMaxSegments,
          "a plan with segments={}: not in 0 ... {}", plan.segments, kMaxSegments);
  const Pins pins = pins_of(plan);
  const auto why = contradiction(pins);
  require(!why, "plan '{}': {}", to_string(pins), why.value_or(""));
  require(complete(pins) == plan, "plan '{}': a part that it does not have is not as in Plan{{}}",
          to_string(pins));
}

}  // namespace pliant::plan
