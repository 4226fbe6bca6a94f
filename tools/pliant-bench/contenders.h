// SPDX-License-Identifier: MIT
// Contenders of a benchmark: the requested schedules and the backend's own collective, all on one
// vector.
#pragma once

#include <vector>

#include "pliant/comm/communicator.h"
#include "tools/pliant-bench/measure.h"
#include "tools/pliant-bench/options.h"
#include "tools/pliant-bench/problem.h"
#include "tools/pliant-bench/ranks.h"

namespace pliant::bench {

// The contenders share memory with each other and outlive everything but the communicator.
// Collective, as the first rank chooses the segments for all.
[[nodiscard]] std::vector<Contender> line_up(comm::Communicator& communicator,
                                             const Backend& backend, const Options& options,
                                             const Problem& problem);

}  // namespace pliant::bench
