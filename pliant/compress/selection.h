// SPDX-License-Identifier: MIT
// Selection: ascending indices within a bucket, and their values. It owns its memory and keeps it
// from round to round, so that after the first few rounds nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pliant/kernels/select.h"

namespace pliant::compress {

class Selection {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t bytes() const {  // of its memory
    return indices_.capacity() * sizeof(std::uint32_t) + values_.capacity() * sizeof(float);
  }
  [[nodiscard]] std::span<const std::uint32_t> indices() const {
    return std::span(indices_).first(size_);
  }
  [[nodiscard]] std::span<const float> values() const { return std::span(values_).first(size_); }
  [[nodiscard]] std::span<std::uint32_t> indices() { return std::span(indices_).first(size_); }
  [[nodiscard]] std::span<float> values() { return std::span(values_).first(size_); }

  // Room for `count` more entries, after those there are; `resize` then says how many there really
  // are.
  [[nodiscard]] kernels::Room room(std::size_t count);

  // Up to what room() has given; what was written there becomes part of the selection.
  void resize(std::size_t size);
  void clear() { size_ = 0; }
  void shrink_to_fit();  // gives back the memory of room that was not used

 private:
  std::vector<std::uint32_t> indices_;
  std::vector<float> values_;
  std::size_t size_ = 0;
};

}  // namespace pliant::compress
