// SPDX-License-Identifier: MIT
#include "pliant/compress/selection.h"

#include "pliant/common/errors.h"

namespace pliant::compress {

kernels::Room Selection::room(std::size_t count) {
  if (values_.size() < size_ + count) {
    indices_.resize(size_ + count);
    values_.resize(size_ + count);
  }
  return {.indices = std::span(indices_).subspan(size_, count),
          .values = std::span(values_).subspan(size_, count)};
}

void Selection::shrink_to_fit() {
  indices_.resize(size_);
  values_.resize(size_);
  indices_.shrink_to_fit();
  values_.shrink_to_fit();
}

void Selection::resize(std::size_t size) {
  require(size <= values_.size(), "a selection of {} entries in room for {}", size, values_.size());
  size_ = size;
}

}  // namespace pliant::compress
