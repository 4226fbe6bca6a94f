// SPDX-License-Identifier: MIT
// Where the parameters and buffers of a model lie now: frames move tensors, so nobody keeps their
// addresses between two calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "pliant/engine/engine.h"

namespace pliant::native {

class Memories {
 public:
  // Throws ContractError for a tensor that is not float32 in one dense piece of host memory.
  Memories(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& buffers);

  [[nodiscard]] engine::Model model() const {
    return {.parameters = spans_[0], .buffers = spans_[1]};
  }
  // The engine has written them: a backward through an older forward must notice.
  void note_writing() const;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<std::span<float>> spans_[2];
};

}  // namespace pliant::native
