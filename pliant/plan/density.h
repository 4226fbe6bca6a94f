// SPDX-License-Identifier: MIT
// Densities as text, exactly: "0.3%" is the double nearest to 0.003, and prints as "0.3%" again.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace pliant::plan {

// The nine densities that candidates() tries. 10, 3, 1, 0.3 and 0.1 % are where the ramp and the
// guard-rails stop, so they must be there; 100, 50, 20 and 5 % fill the rest. No gap is wider
// than 3.4x, so the best density is at most 1.85x away from one of them, and the objective,
// density^p / time, is flat there: 3 % below its best at p = 0.2, 2 % at p = 0.1.
inline constexpr std::array kDensities = {1.0, 0.5, 0.2, 0.1, 0.05, 0.03, 0.01, 0.003, 0.001};

// One entry in a million: a thousand times sparser than the lowest guard-rail. Anything below is a
// slip.
inline constexpr double kMinDensity = 1e-6;

// "1%", "0.3 %" -> 0.01, 0.003. Throws InputError that says what is wrong: no number, no %, not in
// 0.0001% ... 100%.
[[nodiscard]] double parse_density(std::string_view text);

// "1%", without the space that tables for people have: a plan is split at spaces.
[[nodiscard]] std::string density_text(double density);

// Number of entries of a bucket of `length` at this density; at least one unless the bucket is
// empty, since otherwise all of it would stay in the residual for ever.
[[nodiscard]] std::size_t entries_of(double density, std::size_t length);

}  // namespace pliant::plan
