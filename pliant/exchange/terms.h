// SPDX-License-Identifier: MIT
// Terms and Report: the input and the outcome of one exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "pliant/common/units.h"
#include "pliant/exchange/run.h"
#include "pliant/plan/plan.h"

namespace pliant::exchange {

// Input that is the same on all ranks.
struct Terms {
  plan::Plan plan;
  union {
    std::uint64_t round = 0;
    std::uint64_t step;  // its name in version 0.1, for one release
  };
  std::uint32_t plan_version = 0;
  std::uint32_t bucket = 0;         // number of the group, for payloads and tags
  std::optional<Seconds> deadline;  // for each message
  // Dense gradients in f32 that carry a residual: a result that is not finite is void.
  bool flushes = false;
};

struct Report {
  // A contribution was not finite: the result is NaN (gradients) or 0 (updates).
  bool is_void = false;
  int leader = -1;       // shared: the rank whose indices were used
  std::size_t kept = 0;  // entries this rank sent
  // Entries of the result that are not zero / all entries; 1 for dense.
  double updated_fraction = 1;
  double gain = 1;    // energy this rank sent / energy it had accumulated
  double energy = 0;  // accumulated; 0 in a dense exchange of gradients, which does not count it
  double aggregate_gain = 1;  // gain of the average over ranks, estimated (docs/algorithms.md)
  Traffic traffic;            // of the wire
  std::size_t held = 0;  // bytes of own part and results that the flight held, besides its scratch
  Seconds select, encode, wire, decode;
  Seconds encoded_at_departure;  // of encode: before travel
};

}  // namespace pliant::exchange
