// SPDX-License-Identifier: MIT
#include "pliant/engine/flat_tensors.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "pliant/common/errors.h"

namespace pliant::engine {
namespace {

std::size_t total(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

}  // namespace

Buffer<float> zeros(std::size_t size) {
  Buffer<float> buffer(size);
  std::ranges::fill(buffer.span(), 0.0F);
  return buffer;
}

FlatTensors::FlatTensors(std::vector<std::size_t> sizes)
    : base(zeros(total(sizes))),
      residual(zeros(base.size())),
      now(base.size()),
      reference(base.size()),
      result(base.size()),
      group(std::make_unique<exchange::ResidualGroup>(residual.span())),
      sizes_(std::move(sizes)) {}

void FlatTensors::check(Tensors tensors) const {
  require(tensors.size() == sizes_.size(), "engine: {} tensors, not {}", tensors.size(),
          sizes_.size());
  for (std::size_t t = 0; t < sizes_.size(); ++t)
    require(tensors[t].size() == sizes_[t], "engine: {} entries for tensor {}, which has {}",
            tensors[t].size(), t, sizes_[t]);
}

void FlatTensors::read(Tensors from) {
  check(from);
  auto to = now.span().begin();
  for (const auto& tensor : from) to = std::ranges::copy(tensor, to).out;
}

void FlatTensors::write(Tensors to) const {
  auto from = now.span().begin();
  for (const auto& tensor : to) {
    std::copy_n(from, tensor.size(), tensor.begin());
    from += static_cast<std::ptrdiff_t>(tensor.size());
  }
}

void FlatTensors::rebase() {
  std::ranges::copy(now.span(), base.span().begin());
  std::ranges::fill(residual.span(), 0.0F);
  group = std::make_unique<exchange::ResidualGroup>(residual.span());
}

void FlatTensors::land(Tensors tensors, std::span<const float> own_part, bool late) {
  std::size_t begin = 0;
  for (const auto& tensor : tensors) {
    const auto agreed = base.span().subspan(begin, tensor.size());
    const auto landed = result.span().subspan(begin, tensor.size());
    const auto own = own_part.subspan(begin, tensor.size());
    begin += tensor.size();
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      agreed[i] += landed[i];
      if (late) {
        tensor[i] += landed[i] - own[i];
      } else if (std::isfinite(agreed[i])) {
        tensor[i] = agreed[i];
      }
    }
  }
}

std::vector<std::vector<float>> FlatTensors::split(std::span<const float> flat) const {
  std::vector<std::vector<float>> tensors;
  std::size_t begin = 0;
  for (const std::size_t size : sizes_) {
    const auto part = flat.subspan(begin, size);
    begin += size;
    const bool empty = std::ranges::all_of(part, [](float value) { return value == 0; });
    tensors.emplace_back(part.begin(), empty ? part.begin() : part.end());
  }
  return tensors;
}

void FlatTensors::join(std::span<const std::vector<float>> tensors, std::span<float> flat) const {
  require(tensors.size() == sizes_.size(), "engine: a state of {} tensors for a model of {}",
          tensors.size(), sizes_.size());
  std::ranges::fill(flat, 0.0F);
  std::size_t begin = 0;
  for (std::size_t t = 0; t < sizes_.size(); ++t) {
    require(tensors[t].empty() || tensors[t].size() == sizes_[t],
            "engine: a state of {} entries for tensor {}, which has {}", tensors[t].size(), t,
            sizes_[t]);
    std::ranges::copy(tensors[t], flat.begin() + static_cast<std::ptrdiff_t>(begin));
    begin += sizes_[t];
  }
}

void FlatTensors::restore(std::span<const std::vector<float>> saved_base,
                          std::span<const std::vector<float>> saved_residual) {
  join(saved_base, base.span());
  if (saved_residual.empty()) {
    std::ranges::fill(residual.span(), 0.0F);
  } else {
    join(saved_residual, residual.span());
  }
  group = std::make_unique<exchange::ResidualGroup>(residual.span());
}

std::size_t FlatTensors::scratch_bytes() const {
  return now.span().size_bytes() + reference.span().size_bytes() + result.span().size_bytes() +
         group->scratch_bytes();
}

}  // namespace pliant::engine
