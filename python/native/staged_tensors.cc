// SPDX-License-Identifier: MIT
#include "python/native/staged_tensors.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <optional>

namespace pliant::native {
namespace {

float rounded(float value, at::ScalarType type) {
  if (type == at::kBFloat16) return static_cast<float>(c10::BFloat16(value));
  if (type == at::kHalf) return static_cast<float>(c10::Half(value));
  return value;
}

// Adds to the events of a chunk: the stream has been given the last copy of this device.
void note_use(StagingChunks::Chunk& chunk, const c10::Stream& stream) {
  for (c10::Event& event : chunk.used) {
    if (event.device_index() == stream.device_index()) return event.record(stream);
  }
  chunk.used.emplace_back(stream.device_type()).record(stream);
}

}  // namespace

void StagingChunks::Chunk::wait() {
  for (const c10::Event& event : used) event.synchronize();
  used.clear();
}

StagingChunks::Chunk& StagingChunks::next() {
  Chunk& chunk = chunks.at(turn++ % chunks.size());
  if (!chunk.floats.defined())
    chunk.floats = staging.memory(static_cast<std::int64_t>(engine::TensorAccess::kChunk));
  chunk.wait();
  return chunk;
}

StagedTensors::StagedTensors(StagingChunks& chunks, const std::vector<at::Tensor>& tensors)
    : chunks_(chunks), begins_{0} {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    flat_.push_back(tensor.detach().as_strided({tensor.numel()}, {1}));
    begins_.push_back(begins_.back() + static_cast<std::size_t>(tensor.numel()));
    exact_ = exact_ && tensor.scalar_type() == at::kFloat;
  }
}

std::vector<std::size_t> StagedTensors::sizes() const {
  std::vector<std::size_t> sizes;
  for (const at::Tensor& tensor : flat_) sizes.push_back(static_cast<std::size_t>(tensor.numel()));
  return sizes;
}

std::span<float> StagedTensors::host(std::size_t begin) {
  const auto after = std::ranges::upper_bound(begins_, begin);
  const auto t = static_cast<std::size_t>(after - begins_.begin()) - 1;
  const at::Tensor& tensor = flat_.at(t);
  if (!tensor.device().is_cpu() || tensor.scalar_type() != at::kFloat) return {};
  const std::span<float> all(tensor.mutable_data_ptr<float>(), begins_[t + 1] - begins_[t]);
  return all.subspan(begin - begins_[t]);
}

std::vector<StagedTensors::Piece> StagedTensors::pieces(std::size_t begin,
                                                        std::size_t count) const {
  std::vector<Piece> found;
  auto t = static_cast<std::size_t>(std::ranges::upper_bound(begins_, begin) - begins_.begin()) - 1;
  for (std::size_t done = 0; done < count; ++t) {
    const std::size_t from = begin + done - begins_[t];
    const std::size_t size = std::min(begins_[t + 1] - begin - done, count - done);
    if (size == 0) continue;  // an empty tensor
    found.push_back(
        {flat_[t].narrow(0, static_cast<std::int64_t>(from), static_cast<std::int64_t>(size)),
         done});
    done += size;
  }
  return found;
}

StagingChunks::Chunk& StagedTensors::begin_reading(std::size_t begin, std::size_t count) {
  StagingChunks::Chunk& chunk = chunks_.next();
  std::optional<c10::Device> last;  // that has been made to wait
  for (const auto& [flat, done] : pieces(begin, count)) {
    const c10::Device device = flat.device();
    const at::Tensor to = chunk.floats.narrow(0, static_cast<std::int64_t>(done), flat.numel());
    if (device.is_cpu()) {
      to.copy_(flat);
      continue;
    }
    if (last != device) chunks_.staging.follow_current(device);
    last = device;
    const c10::Stream side = chunks_.staging.stream(device);
    const c10::StreamGuard on_side(side);
    to.copy_(flat, /*non_blocking=*/true);
    note_use(chunk, side);
  }
  return chunk;
}

// While one chunk is copied to its place, the next one is on its way.
void StagedTensors::read(std::size_t begin, std::span<float> to) {
  const c10::NoGradGuard no_grad;
  const auto size_at = [&](std::size_t done) { return std::min(kChunk, to.size() - done); };
  if (to.empty()) return;
  StagingChunks::Chunk* chunk = &begin_reading(begin, size_at(0));
  for (std::size_t done = 0; done < to.size();) {
    const std::size_t size = size_at(done);
    const std::size_t after = done + size;
    StagingChunks::Chunk* next =
        after < to.size() ? &begin_reading(begin + after, size_at(after)) : nullptr;
    chunk->wait();
    std::copy_n(chunk->floats.const_data_ptr<float>(), size, to.data() + done);
    chunk = next;
    done = after;
  }
}

void StagedTensors::store(std::size_t begin, std::span<const float> values, std::span<float> lost,
                          Storing how) {
  const c10::NoGradGuard no_grad;
  for (std::size_t done = 0; done < values.size(); done += kChunk) {
    const std::size_t size = std::min(kChunk, values.size() - done);
    StagingChunks::Chunk& chunk = chunks_.next();
    std::copy_n(values.data() + done, size, chunk.floats.mutable_data_ptr<float>());
    for (const auto& [flat, before] : pieces(begin + done, size)) {
      const auto entries = flat.numel();
      const at::Tensor from = chunk.floats.narrow(0, static_cast<std::int64_t>(before), entries);
      if (flat.scalar_type() != at::kFloat) {  // `how` is kWrite
        float* const stored = from.mutable_data_ptr<float>();
        for (std::int64_t i = 0; i < entries; ++i) {
          const float exact = stored[i];
          stored[i] = rounded(exact, flat.scalar_type());
          if (!lost.empty()) lost[done + before + static_cast<std::size_t>(i)] = exact - stored[i];
        }
      }
      if (how == Storing::kWrite) {
        flat.copy_(from, /*non_blocking=*/true);
      } else {
        flat.add_(flat.device().is_cpu() ? from : from.to(flat.device(), /*non_blocking=*/true));
      }
      if (!flat.device().is_cpu()) note_use(chunk, current_stream(flat.device()));
    }
  }
}

void StagedTensors::write(std::size_t begin, std::span<const float> from, std::span<float> lost) {
  std::ranges::fill(lost, 0.0F);
  store(begin, from, lost, Storing::kWrite);
}

void StagedTensors::add(std::size_t begin, std::span<const float> difference,
                        std::span<float> lost) {
  if (exact_) {
    std::ranges::fill(lost, 0.0F);
    return store(begin, difference, {}, Storing::kAdd);
  }
  std::vector<float> before(difference.size());
  read(begin, before);
  std::vector<float> after(difference.size());
  std::ranges::transform(before, difference, after.begin(), std::plus<>());
  std::vector<float> beyond(difference.size());  // what rounding takes from the sum
  write(begin, after, beyond);
  for (std::size_t i = 0; i < lost.size(); ++i)
    lost[i] = difference[i] - ((after[i] - beyond[i]) - before[i]);
}

}  // namespace pliant::native
