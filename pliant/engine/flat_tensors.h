// SPDX-License-Identifier: MIT
// All parameters, or all buffers, of a model as one flat vector: the base and the residual that
// kind updates keeps of them. The tensors themselves stay with the caller.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "pliant/common/buffer.h"
#include "pliant/engine/tensors.h"
#include "pliant/exchange/residual_group.h"

namespace pliant::engine {

class FlatTensors {
 public:
  explicit FlatTensors(std::vector<std::size_t> sizes);

  [[nodiscard]] std::size_t size() const { return base.size(); }
  [[nodiscard]] std::size_t tensors() const { return sizes_.size(); }
  // Throws ContractError unless the number and sizes of the tensors fit.
  void check(const TensorAccess& tensors) const;
  // base = tensors, and nothing is left to send.
  void rebase(TensorAccess& tensors);

  // The tensors from `begin` on become `values`, or grow by `differences`. What rounding takes away
  // goes to the residual.
  void store(TensorAccess& tensors, std::size_t begin, std::span<const float> values);
  void add(TensorAccess& tensors, std::size_t begin, std::span<const float> differences);
  void add_at(TensorAccess& tensors, std::size_t begin, std::span<const std::uint32_t> offsets,
              std::span<const float> differences);

  // A flat vector by tensor, and back. An empty tensor stands for zeros.
  [[nodiscard]] std::vector<std::vector<float>> split(std::span<const float> flat) const;
  void join(std::span<const std::vector<float>> tensors, std::span<float> flat) const;
  void restore(std::span<const std::vector<float>> base,
               std::span<const std::vector<float>> residual);

  Buffer<float> base;
  Buffer<float> residual;
  std::unique_ptr<exchange::ResidualGroup> group;

 private:
  std::span<float> room_for_lost(const TensorAccess& tensors, std::size_t count);
  void take_lost(std::size_t begin, std::span<const float> lost);

  std::vector<std::size_t> sizes_;
  std::vector<float> lost_;  // scratch
};

// Calls `work(begin, count)` for each chunk of `size` entries.
template <typename Work>
void for_each_chunk(std::size_t size, Work work) {
  for (std::size_t begin = 0; begin < size; begin += TensorAccess::kChunk)
    work(begin, std::min(TensorAccess::kChunk, size - begin));
}

[[nodiscard]] Buffer<float> zeros(std::size_t size);

}  // namespace pliant::engine
