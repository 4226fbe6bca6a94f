// SPDX-License-Identifier: MIT
// Small collectives of the training thread, over a process group of its own that lanes do not use.
// A rank that fails here is named like one that fails in an exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "pliant/comm/communicator.h"

namespace pliant::native {

class SideChannel {
 public:
  SideChannel(c10::intrusive_ptr<::c10d::Backend> backend,
              const c10::intrusive_ptr<::c10d::Store>& store, std::optional<Seconds> deadline);

  [[nodiscard]] int rank() const { return communicator_->rank(); }
  [[nodiscard]] int size() const { return communicator_->size(); }

  // Collective, without the GIL.
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine);  // everybody's, by rank
  void sum(const at::Tensor& tensor);        // in place, the same bits on all ranks
  void broadcast(const at::Tensor& tensor);  // rank 0's

  [[nodiscard]] Bytes sent() const { return sent_; }  // by this rank, so far

 private:
  std::unique_ptr<comm::Communicator> communicator_;
  std::optional<Seconds> deadline_;
  Bytes sent_;
};

}  // namespace pliant::native
