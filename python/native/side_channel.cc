// SPDX-License-Identifier: MIT
#include "python/native/side_channel.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "pliant/agree/handshake.h"
#include "pliant/comm/c10d/communicator.h"
#include "pliant/common/errors.h"
#include "pliant/exchange/run_dense.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::native {
namespace {

comm::Floats floats_of(const at::Tensor& tensor) {
  require(tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.device().is_cpu(),
          "side channel: a tensor that is not float32 and contiguous in host memory");
  return {{tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())},
          std::make_shared<at::Tensor>(tensor)};
}

}  // namespace

SideChannel::SideChannel(c10::intrusive_ptr<::c10d::Backend> backend,
                         const c10::intrusive_ptr<::c10d::Store>& store,
                         std::optional<Seconds> deadline)
    : communicator_(comm::c10d::over(
          std::move(backend),
          {.store = c10::make_intrusive<::c10d::PrefixStore>("desk", store), .common = store})),
      deadline_(deadline) {}

std::vector<std::string> SideChannel::gather(const std::string& mine) {
  return agree::gather_texts(*communicator_, mine, deadline_, sent_);
}

void SideChannel::sum(const at::Tensor& tensor) {
  exchange::Workspace workspace;
  sent_ += exchange::all_reduce(*communicator_, floats_of(tensor), "halving-doubling", workspace,
                                {.deadline = deadline_})
               .sent;
}

void SideChannel::broadcast(const at::Tensor& tensor) {
  exchange::Workspace workspace;
  const auto& builder =
      schedule::find_builder(schedule::Collective::kBroadcast, "scatter-allgather");
  sent_ += exchange::run_dense(*communicator_, builder, {communicator_->size()}, floats_of(tensor),
                               workspace, {.deadline = deadline_})
               .sent;
}

}  // namespace pliant::native
