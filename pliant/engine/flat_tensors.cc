// SPDX-License-Identifier: MIT
#include "pliant/engine/flat_tensors.h"

#include <algorithm>
#include <numeric>

#include "pliant/common/errors.h"
#include "pliant/compress/residual.h"

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
      group(std::make_unique<exchange::ResidualGroup>(residual.span())),
      sizes_(std::move(sizes)) {}

void FlatTensors::check(const TensorAccess& tensors) const {
  const std::vector<std::size_t> given = tensors.sizes();
  require(given.size() == sizes_.size(), "engine: {} tensors, not {}", given.size(), sizes_.size());
  for (std::size_t t = 0; t < sizes_.size(); ++t)
    require(given[t] == sizes_[t], "engine: {} entries for tensor {}, which has {}", given[t], t,
            sizes_[t]);
}

void FlatTensors::rebase(TensorAccess& tensors) {
  check(tensors);
  for_each_chunk(size(), [&](std::size_t begin, std::size_t count) {
    tensors.read(begin, base.span().subspan(begin, count));
  });
  std::ranges::fill(residual.span(), 0.0F);
  group = std::make_unique<exchange::ResidualGroup>(residual.span());
}

std::span<float> FlatTensors::room_for_lost(const TensorAccess& tensors, std::size_t count) {
  if (tensors.exact()) return {};
  lost_.assign(count, 0.0F);
  return lost_;
}

void FlatTensors::take_lost(std::size_t begin, std::span<const float> lost) {
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(begin + i);
    if (lost[i] != 0) compress::put_back(residual.span(), {&index, 1}, {&lost[i], 1});
  }
  group->residual_used = group->residual_used || !lost.empty();
}

void FlatTensors::store(TensorAccess& tensors, std::size_t begin, std::span<const float> values) {
  const auto lost = room_for_lost(tensors, values.size());
  tensors.write(begin, values, lost);
  take_lost(begin, lost);
}

void FlatTensors::add(TensorAccess& tensors, std::size_t begin,
                      std::span<const float> differences) {
  const auto lost = room_for_lost(tensors, differences.size());
  tensors.add(begin, differences, lost);
  take_lost(begin, lost);
}

void FlatTensors::add_at(TensorAccess& tensors, std::size_t begin,
                         std::span<const std::uint32_t> offsets,
                         std::span<const float> differences) {
  const auto lost = room_for_lost(tensors, differences.size());
  tensors.add_at(begin, offsets, differences, lost);
  for (std::size_t j = 0; j < lost.size(); ++j) take_lost(begin + offsets[j], lost.subspan(j, 1));
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

}  // namespace pliant::engine
