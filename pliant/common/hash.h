// SPDX-License-Identifier: MIT
// Hash function (XXH3, 64 bits) for checksums of payloads and hashes of layouts and plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pliant {

[[nodiscard]] std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t hash(std::string_view text);

}  // namespace pliant
