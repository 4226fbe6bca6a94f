// SPDX-License-Identifier: MIT
// What goes into an exchange of one bucket, and what is told about it afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "pliant/common/units.h"
#include "pliant/exchange/run.h"
#include "pliant/plan/plan.h"

namespace pliant::exchange {

// What all ranks know, alike, before a byte moves.
struct Terms {
  plan::Plan plan;
  std::uint64_t round = 0;
  std::uint32_t plan_version = 0;
  std::uint32_t bucket = 0;
  std::size_t quota = 0;            // entries that a rank may send; 0: density x size
  std::optional<Seconds> deadline;  // for each message
  bool flushes = false;  // dense gradients in f32: a residual goes along, so a result that is not
                         // finite is void
};

struct Report {
  bool is_void = false;  // somebody's contribution was not finite: the result is NaN (gradients) or
                         // 0 (updates)
  int leader = -1;       // shared: whose indices were taken
  std::size_t kept = 0;  // entries this rank sent
  double updated_fraction =
      1;              // entries of the result that are not zero / all; dense: 1 by definition
  double gain = 1;    // energy this rank sent / energy it had accumulated
  double energy = 0;  // accumulated, where it was counted: not in a dense exchange of gradients
  double aggregate_gain = 1;  // the same of the average over ranks, estimated (docs/algorithms.md)
  Traffic traffic;            // of the wire
  Seconds select, encode, wire, decode;
};

}  // namespace pliant::exchange
