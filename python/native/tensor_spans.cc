// SPDX-License-Identifier: MIT
#include "python/native/tensor_spans.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "pliant/common/errors.h"

namespace pliant::native {

namespace {

bool is_host_float(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.device().is_cpu();
}

}  // namespace

TensorSpans::TensorSpans(StagingChunks& chunks, const std::vector<at::Tensor>& parameters,
                         const std::vector<at::Tensor>& buffers) {
  const auto add = [&](const std::vector<at::Tensor>& tensors, std::size_t which) {
    for (const at::Tensor& tensor : tensors) {
      const auto type = tensor.scalar_type();
      require((type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) &&
                  tensor.is_non_overlapping_and_dense(),
              "updates: a tensor of shape {} that is {} on {}, strides {}; it must be float32, "
              "bfloat16 or float16 in one dense piece of memory",
              c10::str(tensor.sizes()), c10::toString(type), tensor.device().str(),
              c10::str(tensor.strides()));
      tensors_.push_back(tensor);
    }
    if (!std::ranges::all_of(tensors, is_host_float)) {
      staged_[which].emplace(chunks, tensors);
      return;
    }
    for (const at::Tensor& tensor : tensors) {
      spans_[which].emplace_back(static_cast<float*>(tensor.data_ptr()),
                                 static_cast<std::size_t>(tensor.numel()));
    }
  };
  add(parameters, 0);
  add(buffers, 1);
}

engine::TensorList TensorSpans::list(std::size_t which) {
  if (staged_[which]) return engine::TensorList(*staged_[which]);
  return engine::TensorList(spans_[which]);
}

void TensorSpans::note_writing() const {
  for (const at::Tensor& tensor : tensors_) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace pliant::native
