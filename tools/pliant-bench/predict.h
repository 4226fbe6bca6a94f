// SPDX-License-Identifier: MIT
#pragma once

#include "pliant/plan/link.h"
#include "pliant/schedule/catalogue.h"
#include "tools/pliant-bench/problem.h"

namespace pliant::bench {

// What price() says of this schedule over equal links, with blocks cut as exchange/ cuts them.
[[nodiscard]] Seconds predict(const schedule::Builder& builder, const Problem& problem, int segments, const plan::Link& link);

// The number of segments with the lowest price: 1, 2, 3, 4, 6, 8, 12, ... up to 512.
[[nodiscard]] int best_segments(const schedule::Builder& builder, const Problem& problem, const plan::Link& link);

}  // namespace pliant::bench
