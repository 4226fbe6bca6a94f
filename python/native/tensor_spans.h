// SPDX-License-Identifier: MIT
// A model's parameters and buffers as the engine reaches them, for the length of one call: PyTorch
// may move tensors between two calls, so no address is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "pliant/engine/engine.h"
#include "python/native/staged_tensors.h"

namespace pliant::native {

class TensorSpans {
 public:
  // Throws ContractError for a tensor that is not dense, or of another type than float32, bfloat16
  // and float16.
  TensorSpans(StagingChunks& chunks, const std::vector<at::Tensor>& parameters,
              const std::vector<at::Tensor>& buffers);

  [[nodiscard]] engine::ModelTensors model() { return {.parameters = list(0), .buffers = list(1)}; }
  // The engine has written them: a backward through an older forward must notice.
  void note_writing() const;

 private:
  [[nodiscard]] engine::TensorList list(std::size_t which);

  std::vector<at::Tensor> tensors_;
  std::vector<std::span<float>> spans_[2];  // of lists in host memory
  std::optional<StagedTensors> staged_[2];  // of others
};

}  // namespace pliant::native
