// SPDX-License-Identifier: MIT
// Access to one list of the caller's tensors (all parameters, or all buffers) for kind updates. The
// tensors may lie in host memory or on a device, and may be float32 or narrower.
//
// Entries are counted through the whole list: entry 0 is the first of the first tensor. The engine
// goes through the list chunk by chunk, front to back, with chunks of at most kChunk entries that
// may reach over several tensors. All calls come from the thread that called the engine, during
// that call. Spans that the engine passes may be reused once the call returns: whoever copies them
// to a device later must copy them into memory of its own first. A tensor's entries change in the
// order of the calls; a write() after a read() must not be seen by that read.
//
// Tensors narrower than float32 (bfloat16, float16): read() converts, and whatever stores rounds.
// `lost` then receives, entry by entry, what rounding took away:
//
//   write   lost = from - stored
//   add     lost = difference - (stored - old)
//
// The engine adds it to the residual, so nothing is lost. `lost` is empty, or as long as what is
// stored. It is always empty if exact() is true: the rounding of a float32 addition is ignored.
//
// Host memory in float32 needs nothing of this: HostTensors is the implementation for spans, and
// TensorList makes one of them by itself.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pliant::engine {

// All tensors of one list as host memory, in the engine's order.
using Tensors = std::span<const std::span<float>>;

class TensorAccess {
 public:
  // 1 MiB of float32: of the few arrays that a pass works on, each chunk fits the second-level
  // cache, and copies to and from a device are long enough for its bandwidth.
  static constexpr std::size_t kChunk = 262'144;

  TensorAccess() = default;
  virtual ~TensorAccess() = default;
  TensorAccess(const TensorAccess&) = delete;
  TensorAccess& operator=(const TensorAccess&) = delete;

  // Entries of each tensor. Compared with what the engine was made with before anything is read.
  [[nodiscard]] virtual std::vector<std::size_t> sizes() const = 0;

  // The float32 host memory of the entries from `begin` up to the end of their tensor. Empty if
  // they are not float32 in host memory. The engine then reads and writes there directly.
  [[nodiscard]] virtual std::span<float> host(std::size_t begin) = 0;

  // to = the entries from `begin` on. Blocks until they are there.
  virtual void read(std::size_t begin, std::span<float> to) = 0;
  // The entries from `begin` on = from. On a device it may return before they are stored.
  virtual void write(std::size_t begin, std::span<const float> from, std::span<float> lost) = 0;
  // The entries from `begin` on += difference. Likewise.
  virtual void add(std::size_t begin, std::span<const float> difference, std::span<float> lost) = 0;
  // Entry begin + offsets[j] += differences[j]; offsets ascend and are below kChunk. By default a
  // dense add() with zeros elsewhere.
  virtual void add_at(std::size_t begin, std::span<const std::uint32_t> offsets,
                      std::span<const float> differences, std::span<float> lost);
  // Entry begin + offsets[j] = 0; likewise. By default a read() and a write().
  virtual void zero_at(std::size_t begin, std::span<const std::uint32_t> offsets);

  // A hint: these entries are read next, after the chunk that is being worked on. A device can
  // begin to copy them.
  virtual void will_read(std::size_t /*begin*/, std::size_t /*count*/) {}

  // False if some tensor is narrower than float32, so that storing rounds.
  [[nodiscard]] virtual bool exact() const { return true; }
};

// Tensors that are float32 in host memory.
class HostTensors final : public TensorAccess {
 public:
  explicit HostTensors(Tensors tensors) : tensors_(tensors) {}

  [[nodiscard]] std::vector<std::size_t> sizes() const override;
  [[nodiscard]] std::span<float> host(std::size_t begin) override;
  void read(std::size_t begin, std::span<float> to) override;
  void write(std::size_t begin, std::span<const float> from, std::span<float> lost) override;
  void add(std::size_t begin, std::span<const float> difference, std::span<float> lost) override;
  void add_at(std::size_t begin, std::span<const std::uint32_t> offsets,
              std::span<const float> differences, std::span<float> lost) override;
  void zero_at(std::size_t begin, std::span<const std::uint32_t> offsets) override;

 private:
  Tensors tensors_;
  std::vector<std::size_t> begins_;  // of each tensor, and the end; made at the first access
};

// One list of tensors, as an argument: spans over host memory, or any TensorAccess. It owns
// neither; both must live as long as the call that takes it.
class TensorList {
 public:
  TensorList() : TensorList(Tensors{}) {}
  TensorList(TensorAccess& access)  // NOLINT(google-explicit-constructor): an argument
      : access_(std::shared_ptr<void>(), &access) {}
  template <typename Spans>
  requires std::convertible_to<const Spans&, Tensors> TensorList(
      const Spans& spans)  // NOLINT(google-explicit-constructor): likewise
      : access_(std::make_shared<HostTensors>(static_cast<Tensors>(spans))) {}

  [[nodiscard]] TensorAccess& access() const { return *access_; }

 private:
  std::shared_ptr<TensorAccess> access_;
};

}  // namespace pliant::engine
