// SPDX-License-Identifier: MIT
// Gain curve: the share of accumulated's energy that the largest entries hold, for many densities.
#pragma once

#include <span>
#include <vector>

#include "pliant/compress/picture.h"

namespace pliant::compress {

struct GainPoint {
  double density = 0;
  double gain = 0;            // in [0, 1]; 1 where there is no energy at all
  double standard_error = 0;  // 0 where the gain is exact
};

// `picture` is that of the round in which `kept` (the values of each bucket's selection) were
// selected. Exact where the kept entries suffice, that is at and below the density of the round;
// above it from the sample, scaled to the energy that was not kept. The truth is within 3 standard
// errors, as far as normal errors go.
[[nodiscard]] std::vector<GainPoint> gain_curve(const Picture& picture,
                                                std::span<const std::span<const float>> kept,
                                                std::span<const double> densities);

}  // namespace pliant::compress
