// SPDX-License-Identifier: MIT
// All parameters, or all buffers, of a model as one flat vector, with the base and the residual
// that kind updates keeps of them.
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
  void check(Tensors tensors) const;
  void read(Tensors from);       // into `now`
  void write(Tensors to) const;  // from `now`
  // base = now, and nothing is left to send.
  void rebase();
  // base += result. The tensors then become base, or if training went on meanwhile (`late`):
  // tensors += result - own_part. One pass, where the tensors lie: the training thread waits for
  // it.
  void land(Tensors tensors, std::span<const float> own_part, bool late);

  // A flat vector by tensor, and back. An empty tensor stands for zeros.
  [[nodiscard]] std::vector<std::vector<float>> split(std::span<const float> flat) const;
  void join(std::span<const std::vector<float>> tensors, std::span<float> flat) const;
  void restore(std::span<const std::vector<float>> base,
               std::span<const std::vector<float>> residual);

  [[nodiscard]] std::size_t scratch_bytes() const;

  Buffer<float> base;
  Buffer<float> residual;
  Buffer<float> now;        // the tensors while they are worked on
  Buffer<float> reference;  // scratch
  Buffer<float> result;     // scratch
  std::unique_ptr<exchange::ResidualGroup> group;

 private:
  std::vector<std::size_t> sizes_;
};

[[nodiscard]] Buffer<float> zeros(std::size_t size);

}  // namespace pliant::engine
