// SPDX-License-Identifier: MIT
// Time inside the network: whole nanoseconds of the monotonic clock, so that tests with a fake
// clock are exact.
#pragma once

#include <chrono>
#include <cmath>

#include "pliant/common/units.h"

namespace pliant::lab {

using Time = std::chrono::nanoseconds;

inline constexpr Time kNever = Time::max();

[[nodiscard]] inline Time to_time(Seconds s) { return Time(std::llround(s.value * 1e9)); }
[[nodiscard]] inline Seconds to_seconds(Time t) { return {static_cast<double>(t.count()) * 1e-9}; }

}  // namespace pliant::lab
