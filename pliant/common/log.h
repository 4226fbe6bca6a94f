// SPDX-License-Identifier: MIT
// Log callback: the library reports through it and never prints.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace pliant {

enum class Severity : std::uint8_t { kDebug, kInfo, kWarning };

// May be called from any thread. An empty function means silence.
using Log = std::function<void(Severity, std::string_view)>;

}  // namespace pliant
