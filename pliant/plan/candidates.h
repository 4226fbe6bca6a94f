// SPDX-License-Identifier: MIT
// Candidate plans: every plan worth predicting. They are few enough to evaluate all of them; there
// is no search. docs/plans.md says which plans are left out, and why.
#pragma once

#include <vector>

#include "pliant/plan/plan.h"

namespace pliant::plan {

inline constexpr std::array kEverys = {1, 2, 4, 8};
inline constexpr std::array kLates = {0, 1, 2, 4};

struct CandidateOptions {
  Pins pins = {};       // a pinned part has that one value, whether or not it would have been tried
  bool updates = true;  // false: there is no optimizer, gradient plans only
  bool backend_all_reduce = true;  // false: the communicator has no all-reduce of its own
  bool shared = true;              // false: a rank cannot send entries that another rank picks
};

// In a fixed order, the plainest first; all different, all matching the pins. Never empty: throws
// InputError if the options forbid what is pinned. `size` is the number of ranks, at least 1.
[[nodiscard]] std::vector<Plan> candidates(int size, const CandidateOptions& options = {});

}  // namespace pliant::plan
