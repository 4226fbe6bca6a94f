// SPDX-License-Identifier: MIT
#include "python/native/staged_tensors.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

namespace pliant::native {
namespace {

float rounded(float value, at::ScalarType type) {
  if (type == at::kBFloat16) return static_cast<float>(c10::BFloat16(value));
  if (type == at::kHalf) return static_cast<float>(c10::Half(value));
  return value;
}

// Rounds the entries in place. lost: receives what that took away; or empty.
void round_to(at::ScalarType type, std::span<float> entries, std::span<float> lost) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const float exact = entries[i];
    entries[i] = rounded(exact, type);
    if (!lost.empty()) lost[i] = exact - entries[i];
  }
}

}  // namespace

void StagingChunks::Chunk::note_use(const c10::Stream& stream) {
  const auto of_device = [&](const c10::Event& event) {
    return event.device_index() == stream.device_index();
  };
  const auto found = std::ranges::find_if(used, of_device);
  c10::Event& event = found == used.end() ? used.emplace_back(stream.device_type()) : *found;
  event.record(stream);
}

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

std::vector<c10::Device> StagedTensors::devices_of(const std::vector<Piece>& pieces) {
  std::vector<c10::Device> devices;
  for (const Piece& piece : pieces) {
    const c10::Device device = piece.flat.device();
    if (!device.is_cpu() && std::ranges::find(devices, device) == devices.end())
      devices.push_back(device);
  }
  return devices;
}

StagingChunks::Chunk& StagedTensors::begin_reading(std::size_t begin, std::size_t count) {
  StagingChunks::Chunk& chunk = chunks_.next();
  Staging& staging = chunks_.staging;
  const std::vector<Piece> all = pieces(begin, count);
  const std::vector<c10::Device> devices = devices_of(all);
  for (const c10::Device device : devices) staging.follow_current(device);
  for (const auto& [flat, done] : all) {
    const at::Tensor to = chunk.floats.narrow(0, static_cast<std::int64_t>(done), flat.numel());
    if (flat.device().is_cpu()) {
      to.copy_(flat);
      continue;
    }
    const c10::StreamGuard on_side(staging.stream(flat.device()));
    staging.copy(to, flat);
  }
  for (const c10::Device device : devices) chunk.note_use(staging.stream(device));
  return chunk;
}

// While one chunk is copied to its place, the next one is on its way.
void StagedTensors::read(std::size_t begin, std::span<float> to) {
  const c10::NoGradGuard no_grad;
  const auto size_at = [&](std::size_t done) { return std::min(kChunk, to.size() - done); };
  StagingChunks::Chunk* chunk = to.empty() ? nullptr : &begin_reading(begin, size_at(0));
  for (std::size_t done = 0; chunk != nullptr;) {
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
    const std::span<float> floats(chunk.floats.mutable_data_ptr<float>(), size);
    std::ranges::copy(values.subspan(done, size), floats.begin());
    const std::vector<Piece> all = pieces(begin + done, size);
    for (const auto& [flat, before] : all) {
      const auto entries = static_cast<std::size_t>(flat.numel());
      const at::Tensor from =
          chunk.floats.narrow(0, static_cast<std::int64_t>(before), flat.numel());
      if (flat.scalar_type() != at::kFloat) {  // `how` is kWrite
        round_to(flat.scalar_type(), floats.subspan(before, entries),
                 lost.empty() ? lost : lost.subspan(done + before, entries));
      }
      if (how == Storing::kWrite) {
        chunks_.staging.copy(flat, from);
      } else {
        chunks_.staging.add(flat, from);
      }
    }
    for (const c10::Device device : devices_of(all)) chunk.note_use(current_stream(device));
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
