// SPDX-License-Identifier: MIT
#include "python/native/tensor_spans.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include "pliant/common/errors.h"

namespace pliant::native {

TensorSpans::TensorSpans(const std::vector<at::Tensor>& parameters,
                         const std::vector<at::Tensor>& buffers) {
  const auto add = [this](const std::vector<at::Tensor>& tensors,
                          std::vector<std::span<float>>& spans) {
    for (const at::Tensor& tensor : tensors) {
      require(tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() &&
                  tensor.is_non_overlapping_and_dense(),
              "updates: a tensor of shape {} that is {} on {}, strides {}; it must be float32 in "
              "one dense piece of host memory",
              c10::str(tensor.sizes()), c10::toString(tensor.scalar_type()), tensor.device().str(),
              c10::str(tensor.strides()));
      spans.emplace_back(static_cast<float*>(tensor.data_ptr()),
                         static_cast<std::size_t>(tensor.numel()));
      tensors_.push_back(tensor);
    }
  };
  add(parameters, spans_[0]);
  add(buffers, spans_[1]);
}

void TensorSpans::note_writing() const {
  for (const at::Tensor& tensor : tensors_) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace pliant::native
