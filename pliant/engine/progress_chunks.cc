// SPDX-License-Identifier: MIT
#include "pliant/engine/progress_chunks.h"

#include <algorithm>

#include "pliant/kernels/sampled_energy.h"

namespace pliant::engine {

ProgressChunks::ProgressChunks(TensorAccess& tensors, FlatTensors& flat, AddOwnParts add_own_parts,
                               How how)
    : tensors_(tensors), flat_(flat), add_own_parts_(std::move(add_own_parts)), how_(how) {}

compress::Progress ProgressChunks::piece(std::size_t first, std::size_t count) {
  const compress::Progress piece{.parameters = parameters_at(first, count),
                                 .reference = reference_at(first, count)};
  sample(first, piece);
  return piece;
}

std::span<float> ProgressChunks::parameters_at(std::size_t first, std::size_t count) {
  if (first >= begin_ && first + count <= begin_ + chunk_.size())
    return std::span(chunk_).subspan(first - begin_, count);
  finish();
  const std::span<float> memory = tensors_.host(first);
  if (how_.stores && memory.size() >= count) return memory.first(count);
  // A device is worth a long copy. In host memory this piece reaches over tensors, or is only read.
  const std::size_t length =
      memory.empty() ? std::min(TensorAccess::kChunk, flat_.size() - first) : count;
  chunk_.resize(length);
  begin_ = first;
  tensors_.read(first, chunk_);
  const std::size_t next = first + length;
  if (memory.empty() && next < flat_.size())
    tensors_.will_read(next, std::min(TensorAccess::kChunk, flat_.size() - next));
  return std::span(chunk_).first(count);
}

std::span<const float> ProgressChunks::reference_at(std::size_t first, std::size_t count) {
  const auto base = flat_.base.span().subspan(first, count);
  if (!add_own_parts_) return base;
  reference_.assign(base.begin(), base.end());
  add_own_parts_(first, reference_);
  return reference_;
}

void ProgressChunks::finish() {
  if (how_.stores && !chunk_.empty()) flat_.store(tensors_, begin_, chunk_);
  chunk_.clear();
}

void ProgressChunks::sample(std::size_t first, const compress::Progress& piece) {
  if (how_.sample_stride == 0) return;
  const std::size_t distance = kernels::kSampleBlock * how_.sample_stride;
  const std::size_t end = first + piece.reference.size();
  for (std::size_t block = (first + distance - 1) / distance * distance; block < end;
       block += distance) {
    const std::size_t count = std::min(kernels::kSampleBlock, end - block);
    sampled_energy_ += kernels::sampled_energy(piece.parameters.subspan(block - first, count),
                                               piece.reference.subspan(block - first, count), 1);
  }
}

}  // namespace pliant::engine
