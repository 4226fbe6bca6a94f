// SPDX-License-Identifier: MIT
// Number of segments of a pipelined broadcast if the plan leaves it open: one rule for exchange,
// which runs it, and for model, which prices it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "pliant/common/units.h"
#include "pliant/plan/pins.h"

namespace pliant::plan {

// S parts over d levels take about (S + d)(latency + bytes / S x inverse bandwidth), least at S =
// sqrt(d x bytes / B), where B is what the link carries in one latency. All ranks must cut alike
// without knowing the link alike, so B is that of 1 Gbit/s and 0.1 ms (12,500 bytes) and d = 5 (32
// ranks). A link that is ten times off costs less than twice the best; a user who knows the link
// says segments=.
inline constexpr double kBytesInFlight = 12'500;
inline constexpr double kLevels = 5;

[[nodiscard]] inline int default_segments(Bytes payload) {
  const double best = std::sqrt(kLevels * static_cast<double>(payload.value) / kBytesInFlight);
  return std::clamp(static_cast<int>(best), 1, kMaxSegments);
}

}  // namespace pliant::plan
