// SPDX-License-Identifier: MIT
// Staging: copies between tensors on a device and pinned host memory, on a stream beside the one
// that computes. Only torch's generic interface to devices is used, so it works for every device
// that has streams and events.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace pliant::native {

// A copy on its way. `there`: null if it is complete.
struct StagedCopy {
  at::Tensor host;  // flat, float32
  std::shared_ptr<c10::Event> there;

  void wait() const {
    if (there != nullptr) there->synchronize();
  }
};

// Any thread may call.
class Staging {
 public:
  // warn: called once if pinned memory is refused (pageable memory is used then), and once if the
  // device has no memory for a copy (the host does that work then, and waits).
  explicit Staging(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}

  // The stream for copies of this device.
  [[nodiscard]] c10::Stream stream(c10::Device device);
  // Host memory for copies: flat, float32.
  [[nodiscard]] at::Tensor memory(std::int64_t entries);

  // Copies a tensor of any floating type, after everything that the current stream of its device
  // has been given. The memory of the tensor may be freed meanwhile, but not written.
  [[nodiscard]] StagedCopy to_host(const at::Tensor& tensor);
  // tensor = host, on stream().
  void to_device(const at::Tensor& host, const at::Tensor& tensor);
  // to = from, on the current stream, one of them on a device. Their types may differ.
  void copy(const at::Tensor& to, const at::Tensor& from);
  // tensor += host, on the current stream of the tensor's device.
  void add(const at::Tensor& tensor, const at::Tensor& host);

  // Makes stream() of the device wait for what the current stream has been given so far.
  void follow_current(c10::Device device);

 private:
  void warn_once(bool& warned, const std::string& what, const std::string& reason);

  std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  std::vector<c10::Stream> streams_;
  bool refused_ = false;  // pinned memory
  bool full_ = false;     // the device
};

[[nodiscard]] c10::Stream current_stream(c10::Device device);

}  // namespace pliant::native
