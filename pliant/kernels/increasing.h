// SPDX-License-Identifier: MIT
// Check that indices are strictly increasing, as in every selection.
#pragma once

#include <cstdint>
#include <span>

namespace pliant::kernels {

// Is every index larger than the one before it?
[[nodiscard]] bool is_increasing(std::span<const std::uint32_t> indices);

namespace scalar {
[[nodiscard]] bool is_increasing(std::span<const std::uint32_t> indices);
}  // namespace scalar

}  // namespace pliant::kernels
