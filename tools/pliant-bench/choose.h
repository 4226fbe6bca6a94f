// SPDX-License-Identifier: MIT
// Choice of the plans to run: those given as text, and for each requested scheme the plan with the
// lowest price.
#pragma once

#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/plan/plan.h"
#include "tools/pliant-bench/options.h"

namespace pliant::bench {

// The plan of gradients with these pins and the lowest price over equal links, schedules and
// segments being chosen. Deterministic, but of no use to compute on every rank.
[[nodiscard]] plan::Plan cheapest(const plan::Pins& pins, int ranks, std::size_t count,
                                  const plan::Link& link);

// All different, the same on every rank: the first one chooses. Collective.
[[nodiscard]] std::vector<plan::Plan> plans_for(comm::Communicator& communicator,
                                                const Options& options, std::size_t count);

}  // namespace pliant::bench
