// SPDX-License-Identifier: MIT
// Report of pliant-plan as text: verdict, table and sweep.
#pragma once

#include <string>

#include "tools/pliant-plan/advice.h"

namespace pliant::what_if {

// One sentence: "compress: union at 1%, 5.1x to 6.6x plain DDP (assumed)" or "do not compress:
// plain DDP is within 2 %".
[[nodiscard]] std::string verdict(const Advice& advice);

[[nodiscard]] std::string report(const Options& options, const Advice& advice,
                                 std::optional<BytesPerSecond> break_even);

struct Swept {
  plan::Link link;
  Advice advice;
};
[[nodiscard]] std::string report_sweep(const Options& options, const std::vector<Swept>& rows);

}  // namespace pliant::what_if
