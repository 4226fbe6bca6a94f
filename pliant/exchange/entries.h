// SPDX-License-Identifier: MIT
// Entries of a span: sorted indices and their values, as they come out of a payload.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pliant/compress/payload.h"

namespace pliant::exchange {

struct Entries {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;

  [[nodiscard]] std::size_t size() const { return indices.size(); }
  [[nodiscard]] std::size_t bytes() const {
    return indices.capacity() * sizeof(std::uint32_t) + values.capacity() * sizeof(float);
  }
  void push(std::uint32_t index, float value) {
    indices.push_back(index);
    values.push_back(value);
  }
  void clear() {
    indices.clear();
    values.clear();
  }
};

[[nodiscard]] inline std::size_t bytes_of(std::span<const Entries> parts) {
  std::size_t bytes = 0;
  for (const Entries& part : parts) bytes += part.bytes();
  return bytes;
}

// Calls `work(j, offset)` for each entry j of a sorted list that lies within `count` entries from
// `begin` on; `origin` is the entry that the list's indices count from.
template <typename Work>
void for_entries_within(std::span<const std::uint32_t> indices, std::size_t origin,
                        std::size_t begin, std::size_t count, Work work) {
  const auto below = [origin](std::uint32_t index, std::size_t place) {
    return origin + index < place;
  };
  const auto first = std::lower_bound(indices.begin(), indices.end(), begin, below);
  const auto last = std::lower_bound(first, indices.end(), begin + count, below);
  for (auto index = first; index != last; ++index)
    work(static_cast<std::size_t>(index - indices.begin()), origin + *index - begin);
}

// Replaces `entries`, whose memory is used again. Throws CorruptPayload.
inline void decode(const compress::Opened& opened, Entries& entries) {
  entries.indices.resize(opened.count);
  entries.values.resize(opened.count);
  (void)compress::decode_indices(opened, entries.indices);
  (void)compress::decode_values(opened, entries.values);
}

[[nodiscard]] inline Entries decode(const compress::Opened& opened) {
  Entries entries;
  decode(opened, entries);
  return entries;
}

}  // namespace pliant::exchange
