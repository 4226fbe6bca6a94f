// SPDX-License-Identifier: MIT
// Spans over a model's parameters and buffers, for the length of one call: PyTorch may move tensors
// between two calls, so no address is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "pliant/engine/engine.h"

namespace pliant::native {

class TensorSpans {
 public:
  // Throws ContractError for a tensor that is not float32 in one dense piece of host memory.
  TensorSpans(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& buffers);

  [[nodiscard]] engine::ModelTensors model() const {
    return {.parameters = spans_[0], .buffers = spans_[1]};
  }
  // The engine has written them: a backward through an older forward must notice.
  void note_writing() const;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<std::span<float>> spans_[2];
};

}  // namespace pliant::native
