// SPDX-License-Identifier: MIT
// Version of the library.
#pragma once

#include <string_view>

namespace pliant {

[[nodiscard]] std::string_view version();  // "0.1.0"

}  // namespace pliant
