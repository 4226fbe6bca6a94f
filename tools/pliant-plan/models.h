// SPDX-License-Identifier: MIT
// Sizes of well-known models, for --model.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pliant::what_if {

// Parameters of a model. Throws InputError with the nearest known name, or all of them.
[[nodiscard]] std::size_t parameters_of(const std::string& model);

[[nodiscard]] std::vector<std::string> model_names();

}  // namespace pliant::what_if
