// SPDX-License-Identifier: MIT
// Drawing of a schedule as text: one row a round, one column a rank.
#pragma once

#include <span>
#include <string>

#include "pliant/schedule/schedule.h"

namespace pliant::schedule {

// ">3 [0-1]" sends blocks 0 and 1 to rank 3; "<2 [5]" receives block 5 from rank 2; "<2 +[5]" adds
// it.
[[nodiscard]] std::string draw(std::span<const Schedule> ranks);

}  // namespace pliant::schedule
