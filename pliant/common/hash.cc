// SPDX-License-Identifier: MIT
#include "pliant/common/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pliant {

std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace pliant
