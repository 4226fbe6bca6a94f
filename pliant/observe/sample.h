// SPDX-License-Identifier: MIT
// One timing that all ranks hold alike: what travelled, as the model weighs it, and how long it
// took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "pliant/common/units.h"

namespace pliant::observe {

struct Sample {
  std::int64_t step = 0;
  double messages = 0;  // on the critical path, as model::Weight has them
  double bytes = 0;     // likewise
  Seconds duration =
      {};  // by the rank that entered last: the minimum over ranks; on the wire, coding taken off
  std::size_t correction = 0;  // plan::correction_index of the exchange
  bool operator==(const Sample&) const = default;
};

// A collective that takes an hour is a machine that slept; one faster than 100 ns never left the
// processor.
inline constexpr Seconds kLongest = {3600};
inline constexpr Seconds kShortest = {100e-9};

// Why this is no timing, in words for the log; or nothing.
[[nodiscard]] std::optional<std::string> complaint(const Sample& sample);

}  // namespace pliant::observe
