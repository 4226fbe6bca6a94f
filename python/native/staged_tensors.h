// SPDX-License-Identifier: MIT
// Access of the engine to tensors that are not float32 in host memory: on a device, or narrower.
// Reads are copies on the stream of Staging; writes and additions are work of the current stream,
// which the training thread does not wait for. Two chunks of host memory are in turn.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "pliant/engine/tensor_access.h"
#include "python/native/staging.h"

namespace pliant::native {

// Host memory of two chunks, kept from call to call.
struct StagingChunks {
  struct Chunk {
    at::Tensor floats;
    std::vector<c10::Event> used;  // when its last copies are through, by device
    // The stream has been given the last copy of its device.
    void note_use(const c10::Stream& stream);
    void wait();
  };
  explicit StagingChunks(Staging& way) : staging(way) {}
  [[nodiscard]] Chunk& next();  // waits until it is free

  Staging& staging;
  std::array<Chunk, 2> chunks;
  std::size_t turn = 0;
};

class StagedTensors final : public engine::TensorAccess {
 public:
  // The tensors are dense.
  StagedTensors(StagingChunks& chunks, const std::vector<at::Tensor>& tensors);

  [[nodiscard]] std::vector<std::size_t> sizes() const override;
  [[nodiscard]] std::span<float> host(std::size_t begin) override;
  void read(std::size_t begin, std::span<float> to) override;
  void write(std::size_t begin, std::span<const float> from, std::span<float> lost) override;
  void add(std::size_t begin, std::span<const float> difference, std::span<float> lost) override;
  [[nodiscard]] bool exact() const override { return exact_; }

 private:
  // Entries that are side by side in one tensor.
  struct Piece {
    at::Tensor flat;
    std::size_t done;  // entries before it
  };
  [[nodiscard]] std::vector<Piece> pieces(std::size_t begin, std::size_t count) const;
  StagingChunks::Chunk& begin_reading(std::size_t begin, std::size_t count);
  // The devices of these pieces, each once; none for host memory.
  [[nodiscard]] static std::vector<c10::Device> devices_of(const std::vector<Piece>& pieces);
  enum class Storing { kWrite, kAdd };
  void store(std::size_t begin, std::span<const float> values, std::span<float> lost, Storing how);

  StagingChunks& chunks_;
  std::vector<at::Tensor> flat_;
  std::vector<std::size_t> begins_;  // of each tensor, and the end
  bool exact_ = true;
};

}  // namespace pliant::native
