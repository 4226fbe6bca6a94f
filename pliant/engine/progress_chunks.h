// SPDX-License-Identifier: MIT
// Progress of the caller's parameters since the last exchange, chunk by chunk: parameters minus
// reference, where the reference is the base plus this rank's own parts in flight. No copy of the
// model is made. Float32 tensors in host memory are worked on where they lie; others pass through
// one chunk of scratch memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "pliant/compress/contribution.h"
#include "pliant/engine/flat_tensors.h"

namespace pliant::engine {

// to += own parts in flight of the entries from `begin` on, oldest first.
using AddOwnParts = std::function<void(std::size_t begin, std::span<float> to)>;

class ProgressChunks final : public compress::ProgressSource {
 public:
  struct How {
    // Whether the parameters become the reference. If not, they are only read.
    bool stores = true;
    // Every so many blocks of kernels::kSampleBlock entries one is sampled; 0: none is.
    std::size_t sample_stride = 0;
  };
  // `add_own_parts` is empty if nothing is in flight.
  ProgressChunks(TensorAccess& tensors, FlatTensors& flat, AddOwnParts add_own_parts, How how);

  // Pieces are asked for front to back.
  compress::Progress piece(std::size_t first, std::size_t count) override;
  // After the last piece: stores what is still in scratch memory.
  void finish();

  [[nodiscard]] double sampled_energy() const { return sampled_energy_; }

 private:
  std::span<float> parameters_at(std::size_t first, std::size_t count);
  std::span<const float> reference_at(std::size_t first, std::size_t count);
  void sample(std::size_t first, const compress::Progress& piece);

  TensorAccess& tensors_;
  FlatTensors& flat_;
  const AddOwnParts add_own_parts_;
  const How how_;
  // The chunk in scratch memory.
  std::vector<float> chunk_;
  std::size_t begin_ = 0;
  std::vector<float> reference_;
  double sampled_energy_ = 0;
};

}  // namespace pliant::engine
