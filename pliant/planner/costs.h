// SPDX-License-Identifier: MIT
// Agreement of all ranks on the costs of coding.
#pragma once

#include <optional>

#include "pliant/comm/communicator.h"
#include "pliant/plan/costs.h"

namespace pliant::planner {

// The costs of the slowest rank, row by row. Collective.
[[nodiscard]] plan::CostTable agreed_costs(comm::Communicator& communicator,
                                           const plan::CostTable& mine,
                                           std::optional<Seconds> deadline);

}  // namespace pliant::planner
