// SPDX-License-Identifier: MIT
// Suggestion for a mistyped word: the nearest known one ("did you mean").
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pliant {

// The nearest of `known` by edit distance, if it is near enough to be a likely slip (at most a
// third of the letters).
[[nodiscard]] std::optional<std::string> nearest_word(std::string_view typed,
                                                      std::span<const std::string> known);

// " (did you mean 'x'?)" or, without a near word, "; allowed: a, b, c".
[[nodiscard]] std::string suggestion(std::string_view typed, std::span<const std::string> known);

}  // namespace pliant
