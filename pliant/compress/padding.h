// SPDX-License-Identifier: MIT
// Padding of streams and their parts with zeros to 8 bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "pliant/plan/code_sizes.h"

namespace pliant::compress {

inline constexpr const char* kPadding = "bytes of padding are not zero";

// Zeros after the first `used` bytes; returns the padded size.
inline std::size_t pad(std::byte* part, std::size_t used) {
  const std::size_t size = plan::padded(used);
  std::fill(part + used, part + size, std::byte{0});
  return size;
}

inline bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace pliant::compress
