// SPDX-License-Identifier: MIT
// Sample: one timing, the same on all ranks, with its messages and bytes as the model counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "pliant/common/units.h"

namespace pliant::observe {

struct Sample {
  std::int64_t step = 0;
  double messages = 0;         // on the critical path, as model::Weight has them
  double bytes = 0;            // likewise
  Seconds duration = {};       // on the wire, without coding; the minimum over ranks
  std::size_t correction = 0;  // plan::correction_index of the exchange
  bool operator==(const Sample&) const = default;
};

// Limits of a plausible timing: a collective that takes an hour means a suspended machine; one
// faster than 100 ns never left the processor.
inline constexpr Seconds kLongest = {3600};
inline constexpr Seconds kShortest = {100e-9};

// Why this timing cannot be right, in words for the log; nullopt if it can.
[[nodiscard]] std::optional<std::string> reason_to_ignore(const Sample& sample);

}  // namespace pliant::observe
