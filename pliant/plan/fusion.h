// SPDX-License-Identifier: MIT
// Rule for grouping buckets that travel together. The engine groups by it and the model predicts by
// it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pliant/plan/choices.h"

namespace pliant::plan {

// Number of buckets in each group, in order; no group is empty. Two groups are cut where the halves
// come nearest to being equal.
[[nodiscard]] std::vector<std::size_t> group_counts(Fusion fusion,
                                                    std::span<const std::size_t> bucket_lengths);

}  // namespace pliant::plan
