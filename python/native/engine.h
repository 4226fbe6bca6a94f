// SPDX-License-Identifier: MIT
// Engine for tensors: takes buckets of any floating type, returns futures.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <unordered_map>
#include <vector>

#include "pliant/engine/engine.h"
#include "python/native/grad_snapshots.h"
#include "python/native/staged_tensors.h"
#include "python/native/staging.h"

namespace pliant::native {

struct Groups {  // as engine::Communicators
  std::vector<c10::intrusive_ptr<::c10d::Backend>> lanes;
  c10::intrusive_ptr<::c10d::Backend> control;
  c10::intrusive_ptr<::c10d::Store> store;          // where ranks leave word of whom they wait for
  c10::intrusive_ptr<::c10d::Store> control_store;  // the same for control
  std::uint16_t part = 0;
};

class TensorEngine {
 public:
  // Collective. Without the GIL.
  TensorEngine(const Groups& groups, const std::vector<std::string>& names,
               const std::vector<at::Tensor>& parameters, engine::Options options,
               const std::vector<std::string>& buffer_names,
               const std::vector<at::Tensor>& buffers);
  ~TensorEngine() { returned_->stop(); }
  TensorEngine(const TensorEngine&) = delete;
  TensorEngine& operator=(const TensorEngine&) = delete;

  // Averages a flat bucket in place: the gradients of these parameters, side by side. With the GIL,
  // which it lets go. The future's value is the bucket.
  std::shared_ptr<torch::jit::PythonFutureWrapper> submit(
      const pybind11::object& bucket, const std::vector<at::Tensor>& parameters);
  // For a step of which Gradients::caller_may_average() is true: these gradients are averaged in
  // their bucket on `device` when `work`, of the user's own process group, is done.
  void submit_averaged(const std::vector<at::Tensor>& parameters,
                       const std::shared_ptr<torch::jit::PythonFutureWrapper>& work,
                       c10::Device device);

  // Averages that are still in .grad when a backward adds to it are not exchanged again. Until
  // close().
  void watch_gradients();
  [[nodiscard]] std::optional<double> rescaled() const { return returned_->rescaled(); }

  // Kind updates. Tensors are dense, on any device, in the engine's order; those written to have a
  // new version for autograd afterwards. Without the GIL.
  engine::Stepped step(const std::vector<at::Tensor>& parameters,
                       const std::vector<at::Tensor>& buffers);
  void settle(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& buffers,
              engine::Updates::Patience patience);
  void meet(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& buffers);
  void rebase(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& buffers);
  void clear_at_sent(const std::vector<at::Tensor>& tensors);

  void close(runlog::Ending ending);

  [[nodiscard]] Engine& engine() { return engine_; }

 private:
  [[nodiscard]] bool is_dense() const;
  [[nodiscard]] int place_of(const at::Tensor& parameter) const;
  [[nodiscard]] bool must_wait(const std::vector<at::Tensor>& parameters);

  std::shared_ptr<Staging> staging_;
  StagingChunks chunks_;
  std::shared_ptr<GradSnapshots> returned_;
  std::unordered_map<const at::TensorImpl*, int> places_;  // of parameters
  Engine engine_;
};

}  // namespace pliant::native
