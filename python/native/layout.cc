// SPDX-License-Identifier: MIT
#include "python/native/layout.h"

#include <ATen/Dispatch.h>

namespace pliant::native {

std::vector<std::int64_t> layout(const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) return parameter.strides().vec();
  std::vector<std::int64_t> strides(static_cast<std::size_t>(parameter.dim()));
  std::int64_t stride = 1;
  for (std::size_t d = strides.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= parameter.size(static_cast<std::int64_t>(d));
  }
  return strides;
}

float entry(const at::Tensor& tensor, std::span<const std::int64_t> layout, std::int64_t at) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < layout.size(); ++d) {
    const auto size = tensor.size(static_cast<std::int64_t>(d));
    if (size > 1) offset += at / layout[d] % size * tensor.stride(static_cast<std::int64_t>(d));
  }
  float value = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, tensor.scalar_type(), "pliant_entry",
      [&] { value = static_cast<float>(tensor.const_data_ptr<scalar_t>()[offset]); });
  return value;
}

}  // namespace pliant::native
