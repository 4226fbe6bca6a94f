// SPDX-License-Identifier: MIT
#include "python/native/staging.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>

namespace pliant::native {
namespace {

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

at::Tensor Staging::memory(std::int64_t entries) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(at::kCPU);
  bool pinned = false;
  {
    const std::lock_guard lock(mutex_);
    pinned = !refused_;
  }
  if (pinned) {
    try {
      return at::empty({entries}, options.pinned_memory(true));
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      if (!refused_) {
        const std::string reason = error.what();
        warn_(
            fmt::format("pinned memory was refused ({}): copies from and to the device use "
                        "pageable memory, which is slower",
                        reason.substr(0, reason.find('\n'))));
      }
      refused_ = true;
    }
  }
  return at::empty({entries}, options);
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
  copy.host.copy_(tensor, /*non_blocking=*/true);
  copy.there->record(side);
  c10::impl::VirtualGuardImpl(device.type())
      .recordDataPtrOnStream(tensor.storage().data_ptr(), side);
  return copy;
}

void Staging::to_device(const at::Tensor& host, const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  const c10::StreamGuard on_side(stream(tensor.device()));
  tensor.copy_(host, /*non_blocking=*/true);
}

}  // namespace pliant::native
