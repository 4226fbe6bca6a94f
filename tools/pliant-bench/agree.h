// SPDX-License-Identifier: MIT
// Agreement of all ranks on one number.
#pragma once

#include <optional>

#include "pliant/comm/communicator.h"

namespace pliant::bench {

// The largest value over all ranks, on all ranks. No rank leaves before all have come, so it is
// a barrier too. Collective; throws CommError.
[[nodiscard]] double max_over_ranks(comm::Communicator& communicator, double mine,
                                    const std::optional<Seconds>& deadline);

}  // namespace pliant::bench
