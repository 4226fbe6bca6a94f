// SPDX-License-Identifier: MIT
// Backend of torch.distributed for tensors on the late device, over one for tensors of the host.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace late {

[[nodiscard]] c10::intrusive_ptr<c10d::Backend> staged(c10::intrusive_ptr<c10d::Backend> gloo);

}  // namespace late
