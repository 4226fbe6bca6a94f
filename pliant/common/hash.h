// SPDX-License-Identifier: MIT
// XXH3, 64 bits: checksums on the wire, layout and plan hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pliant {

[[nodiscard]] std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t hash(std::string_view text);

}  // namespace pliant
