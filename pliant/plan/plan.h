// SPDX-License-Identifier: MIT
// Plan: how to exchange, all of it decided (kind, every, late, scheme, schedules, density, coding,
// fusion). A value with one line of text, for people, logs and the agreement between ranks. Pins
// are the plan of which parts may be left open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pliant/plan/choices.h"
#include "pliant/plan/codes.h"
#include "pliant/plan/pins.h"

namespace pliant::plan {

// Plan{} is plain DDP. A part that the kind or scheme does not have keeps the default, so that
// equal plans are equal values; `check` enforces it.
struct Plan {
  Kind kind = Kind::kGradients;
  int every = 1;  // updates: steps between exchanges
  int late = 0;   // updates: steps until the result lands
  Scheme scheme = Scheme::kDense;
  Leader leader = Leader::kStar;                      // shared
  ReduceScatter scatter = ReduceScatter::kCirculant;  // srs
  AllGather gather = AllGather::kBruck;               // union, srs
  Broadcast bcast = Broadcast::kScatterAllgather;     // shared
  int segments = 0;  // shared, chain and double-tree; 0: the schedule's own rule, from the size
  AllReduce reduce = AllReduce::kBackend;  // dense, shared
  double density = 1;                      // union, shared, srs
  ValueCode values = ValueCode::kF32;
  IndexCode indices = IndexCode::kRice;  // union, shared, srs
  Fusion fuse = Fusion::kBucket;         // gradients
  bool operator==(const Plan&) const = default;
};

// A complete plan: kind, scheme and (unless dense) density must be there; the rest, if left out, is
// as in Plan{}, and reduce=halving-doubling for shared. Throws InputError as parse_pins does.
[[nodiscard]] Plan parse_plan(std::string_view text, std::string_view what = "plan");

// All parts of the plan in one line that parse_plan reads back. Left out are gather=bruck, segments
// left to the schedule, and the 100% of dense.
[[nodiscard]] std::string to_string(const Plan& plan);

// XXH3 of the text. Ranks compare it in the control record.
[[nodiscard]] std::uint64_t hash(const Plan& plan);

// All parts that the plan has, pinned.
[[nodiscard]] Pins pins_of(const Plan& plan);

// The pinned parts, the rest from `defaults` where that fits them, and as in parse_plan where it
// does not. Throws ContractError if the pins contradict each other (parse_pins never returns such).
[[nodiscard]] Plan complete(const Pins& pins, const Plan& defaults = {});

// The plan by which buffers travel beside an exchange of updates: always dense and float32, since
// rounding a mean again and again would let it drift. Buffers are small, so messages count and not
// bytes: a backend's own all-reduce may be a ring of 2 (N - 1).
[[nodiscard]] constexpr Plan beside(const Plan& updates, std::size_t entries) {
  constexpr std::size_t kFewEntries = 16 * 1024;
  return {.kind = Kind::kUpdates,
          .every = updates.every,
          .late = updates.late,
          .reduce =
              entries <= kFewEntries ? AllReduce::kRecursiveDoubling : AllReduce::kHalvingDoubling};
}

// Throws ContractError, naming plan and reason, if a plan built by hand is one that parse_plan
// would not return.
void check(const Plan& plan);

}  // namespace pliant::plan
