// SPDX-License-Identifier: MIT
// Measurement of this machine's cost table, by running the kernels.
#pragma once

#include <cstddef>

#include "pliant/plan/costs.h"

namespace pliant::compress {

struct MeasureOptions {
  // 1 MiB of floats: beyond the first-level cache, and the whole table takes well under 50 ms.
  // Larger buckets wait for memory and take up to twice as long per element.
  std::size_t elements = 262'144;
  int repetitions =
      3;  // the fastest counts: what else runs on the machine is not the kernel's cost
};

[[nodiscard]] plan::CostTable measure_costs(const MeasureOptions& options = {});

}  // namespace pliant::compress
