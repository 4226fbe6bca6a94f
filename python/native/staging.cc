// SPDX-License-Identifier: MIT
#include "python/native/staging.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pliant::native {
namespace {

constexpr const char* kFull =
    "the device has no memory left for copies ({}): the host converts and adds instead, which is "
    "slower";

c10::Stream side_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  try {
    return guard.getStreamFromGlobalPool(device);
  } catch (const c10::Error&) {  // not every device has a pool
    return guard.getNewStream(device);
  }
}

}  // namespace

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

c10::Stream Staging::stream(c10::Device device) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(streams_, [&](const auto& one) { return one.device() == device; });
  if (found != streams_.end()) return *found;
  return streams_.emplace_back(side_stream(device));
}

void Staging::warn_once(bool& warned, const std::string& what, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(warned, true)) return;
  warn_(fmt::format(fmt::runtime(what), reason.substr(0, reason.find('\n'))));
}

at::Tensor Staging::memory(std::int64_t entries) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(at::kCPU);
  const bool tries_pinned = [this] {
    const std::lock_guard lock(mutex_);
    return !refused_;
  }();
  if (tries_pinned) {
    try {
      return at::empty({entries}, options.pinned_memory(true));
    } catch (const std::exception& error) {
      warn_once(refused_,
                "pinned memory was refused ({}): copies from and to the device use pageable "
                "memory, which is slower",
                error.what());
    }
  }
  return at::empty({entries}, options);
}

// A copy that does not block converts on the device, which takes memory there; one that blocks
// converts on the host.
void Staging::copy(const at::Tensor& to, const at::Tensor& from) {
  try {
    to.copy_(from, /*non_blocking=*/true);
  } catch (const c10::OutOfMemoryError& error) {
    warn_once(full_, kFull, error.what());
    to.copy_(from, /*non_blocking=*/false);
  }
}

void Staging::add(const at::Tensor& tensor, const at::Tensor& host) {
  if (tensor.device().is_cpu()) {
    tensor.add_(host);
    return;
  }
  try {
    tensor.add_(host.to(tensor.device(), /*non_blocking=*/true));
  } catch (const c10::OutOfMemoryError& error) {
    warn_once(full_, kFull, error.what());
    tensor.copy_(tensor.to(at::kCPU).add_(host));
  }
}

void Staging::follow_current(c10::Device device) {
  c10::Event reached(device.type());
  reached.record(current_stream(device));
  reached.block(stream(device));
}

StagedCopy Staging::to_host(const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  const c10::Device device = tensor.device();
  const c10::Stream side = stream(device);
  StagedCopy copy{.host = memory(tensor.numel()),
                  .there = std::make_shared<c10::Event>(device.type())};
  follow_current(device);
  const c10::StreamGuard on_side(side);
  this->copy(copy.host, tensor);
  copy.there->record(side);
  c10::impl::VirtualGuardImpl(device.type())
      .recordDataPtrOnStream(tensor.storage().data_ptr(), side);
  return copy;
}

void Staging::to_device(const at::Tensor& host, const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  const c10::StreamGuard on_side(stream(tensor.device()));
  copy(tensor, host);
}

}  // namespace pliant::native
