// SPDX-License-Identifier: MIT
// Predicted times of schedules, and the segments that are best by them.
#pragma once

#include <vector>

#include "pliant/plan/link.h"
#include "pliant/schedule/catalogue.h"
#include "tools/pliant-bench/problem.h"

namespace pliant::bench {

// Price of this schedule over equal links, with blocks cut as exchange/ cuts them.
[[nodiscard]] Seconds predict(const schedule::Builder& builder, const Problem& problem,
                              int segments, const plan::Link& link);

// Network for which segments and schedules are chosen if the user names none: a good Ethernet.
inline const plan::Link kAssumedLink = plan::link_of(from_bits_per_second(10e9), {50e-6});

// 1, 2, 3, 4, 6, 8, 12, ... 512.
[[nodiscard]] std::vector<int> segment_candidates();

// The number of segments with the lowest price.
[[nodiscard]] int best_segments(const schedule::Builder& builder, const Problem& problem,
                                const plan::Link& link);

}  // namespace pliant::bench
