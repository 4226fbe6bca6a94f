// SPDX-License-Identifier: MIT
#include "pliant/engine/tensor_access.h"

#include <algorithm>

#include "pliant/common/errors.h"

namespace pliant::engine {

void TensorAccess::add_at(std::size_t begin, std::span<const std::uint32_t> offsets,
                          std::span<const float> differences, std::span<float> lost) {
  if (offsets.empty()) return;
  const std::size_t first = offsets.front();
  std::vector<float> dense(offsets.back() - first + 1, 0.0F);
  std::vector<float> dense_lost(lost.empty() ? 0 : dense.size());
  for (std::size_t j = 0; j < offsets.size(); ++j) dense[offsets[j] - first] = differences[j];
  add(begin + first, dense, dense_lost);
  for (std::size_t j = 0; j < lost.size(); ++j) lost[j] = dense_lost[offsets[j] - first];
}

void TensorAccess::zero_at(std::size_t begin, std::span<const std::uint32_t> offsets) {
  if (offsets.empty()) return;
  const std::size_t first = offsets.front();
  std::vector<float> dense(offsets.back() - first + 1);
  read(begin + first, dense);
  for (const std::uint32_t offset : offsets) dense[offset - first] = 0;
  write(begin + first, dense, {});
}

std::vector<std::size_t> HostTensors::sizes() const {
  std::vector<std::size_t> sizes;
  sizes.reserve(tensors_.size());
  for (const auto& tensor : tensors_) sizes.push_back(tensor.size());
  return sizes;
}

std::span<float> HostTensors::host(std::size_t begin) {
  if (begins_.empty()) {
    begins_.reserve(tensors_.size() + 1);
    begins_.push_back(0);
    for (const auto& tensor : tensors_) begins_.push_back(begins_.back() + tensor.size());
  }
  require(begin < begins_.back(), "engine: entry {} of tensors of {} entries", begin,
          begins_.back());
  const auto after = std::ranges::upper_bound(begins_, begin);  // skips empty tensors
  const auto t = static_cast<std::size_t>(after - begins_.begin()) - 1;
  return tensors_[t].subspan(begin - begins_[t]);
}

namespace {

// Calls `work(memory, done)` for each piece of `count` entries that lies in one tensor; `done` is
// the number of entries before it.
template <typename Work>
void for_each_piece(HostTensors& tensors, std::size_t begin, std::size_t count, Work work) {
  for (std::size_t done = 0; done < count;) {
    std::span<float> memory = tensors.host(begin + done);
    memory = memory.first(std::min(memory.size(), count - done));
    work(memory, done);
    done += memory.size();
  }
}

// The same for entries begin + offsets[j]: `work(entry, j)`.
template <typename Work>
void for_each_entry(HostTensors& tensors, std::size_t begin, std::span<const std::uint32_t> offsets,
                    Work work) {
  std::span<float> memory;
  std::size_t first = 0;  // entry of the list where `memory` begins
  for (std::size_t j = 0; j < offsets.size(); ++j) {
    const std::size_t at = begin + offsets[j];
    if (at >= first + memory.size()) {
      memory = tensors.host(at);
      first = at;
    }
    work(memory[at - first], j);
  }
}

}  // namespace

void HostTensors::read(std::size_t begin, std::span<float> to) {
  for_each_piece(*this, begin, to.size(), [&](std::span<float> memory, std::size_t done) {
    std::ranges::copy(memory, to.begin() + static_cast<std::ptrdiff_t>(done));
  });
}

void HostTensors::write(std::size_t begin, std::span<const float> from, std::span<float> lost) {
  for_each_piece(*this, begin, from.size(), [&](std::span<float> memory, std::size_t done) {
    std::ranges::copy(from.subspan(done, memory.size()), memory.begin());
  });
  std::ranges::fill(lost, 0.0F);
}

void HostTensors::add(std::size_t begin, std::span<const float> difference, std::span<float> lost) {
  for_each_piece(*this, begin, difference.size(), [&](std::span<float> memory, std::size_t done) {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] += difference[done + i];
  });
  std::ranges::fill(lost, 0.0F);
}

void HostTensors::add_at(std::size_t begin, std::span<const std::uint32_t> offsets,
                         std::span<const float> differences, std::span<float> lost) {
  for_each_entry(*this, begin, offsets,
                 [&](float& entry, std::size_t j) { entry += differences[j]; });
  std::ranges::fill(lost, 0.0F);
}

void HostTensors::zero_at(std::size_t begin, std::span<const std::uint32_t> offsets) {
  for_each_entry(*this, begin, offsets, [](float& entry, std::size_t) { entry = 0; });
}

}  // namespace pliant::engine
