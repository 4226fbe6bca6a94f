// SPDX-License-Identifier: MIT
// Entries of a span: sorted indices and their values, as they come out of a payload.
#pragma once

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

// Throws CorruptPayload.
[[nodiscard]] inline Entries decode(const compress::Opened& opened) {
  Entries entries{std::vector<std::uint32_t>(opened.count), std::vector<float>(opened.count)};
  (void)compress::decode_indices(opened, entries.indices);
  (void)compress::decode_values(opened, entries.values);
  return entries;
}

}  // namespace pliant::exchange
