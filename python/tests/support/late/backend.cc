// SPDX-License-Identifier: MIT
#include "python/tests/support/late/backend.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "python/tests/support/late/memory.h"
#include "python/tests/support/late/streams.h"

namespace late {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor for_kernels(const at::Tensor& tensor) {
  return at::from_blob(late::for_kernels(tensor.data_ptr()), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

class StreamWork final : public c10d::Work {
 public:
  StreamWork(int rank, c10d::OpType type, Tensors results, Tensors held)
      : Work(rank, type), results_(std::move(results)), held_(std::move(held)) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()),
        std::vector<c10::Device>{results_.front().device()});
  }
  bool isCompleted() override { return event_.has_passed(); }
  bool isSuccess() const override { return true; }
  std::vector<at::Tensor> result() override { return results_; }
  void synchronize() override { event_.block(current(results_.front().device().index())); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    synchronize();
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // The last task of the collective has been given to the stream.
  void enqueued(Stream& stream) {
    event_.record(stream);
    const c10::StreamGuard guard(c10::Stream(c10::Stream::UNSAFE, results_.front().device(),
                                             static_cast<c10::StreamId>(stream.number())));
    future_->markCompleted(c10::IValue(results_));
  }

 private:
  Tensors results_;
  Tensors held_;  // arguments
  Event event_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Collectives of tensors on the late device: as NCCL does, tasks of a stream of their own, which
// waits for the stream of the caller. They travel through copies on the host.
class StagedBackend final : public c10d::Backend {
 public:
  explicit StagedBackend(c10::intrusive_ptr<c10d::Backend> gloo)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}

  const std::string getBackendName() const override { return "staged"; }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return run(c10d::OpType::ALLREDUCE, tensors, tensors, [=, this](Tensors host, const Tensors&) {
      gloo_->allreduce(host, options)->wait();
      return host;
    });
  }
  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return run(c10d::OpType::BROADCAST, tensors, tensors, [=, this](Tensors host, const Tensors&) {
      gloo_->broadcast(host, options)->wait();
      return host;
    });
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override {
    return run(c10d::OpType::ALLGATHER, outputs.front(), inputs,
               [=, this](Tensors host, Tensors input) {
                 std::vector<Tensors> lists{std::move(host)};
                 gloo_->allgather(lists, input, options)->wait();
                 return lists.front();
               });
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    return gloo_->barrier(options);
  }

 private:
  // body: given copies of outputs and inputs on the host, returns the new outputs.
  template <typename Body>
  c10::intrusive_ptr<c10d::Work> run(c10d::OpType type, const Tensors& outputs,
                                     const Tensors& inputs, Body body) {
    const int device = inputs.front().device().index();
    Stream& stream = late::stream(device, kCollectives);
    Event ready;
    ready.record(current(device));
    ready.block(stream);
    last_.block(stream);
    auto work = c10::make_intrusive<StreamWork>(getRank(), type, outputs, inputs);
    Tensors to, from;
    for (const at::Tensor& tensor : outputs) to.push_back(for_kernels(tensor));
    for (const at::Tensor& tensor : inputs) from.push_back(for_kernels(tensor));
    stream.run([=] {
      const auto copies = [](const Tensors& tensors) {
        Tensors made;
        for (const at::Tensor& tensor : tensors) made.push_back(tensor.clone());
        return made;
      };
      const Tensors results = body(copies(to), copies(from));
      for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(results[i]);
    });
    stream.run([held = work] {});  // keeps the tensors until here
    last_.record(stream);
    work->enqueued(stream);
    return work;
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
  Event last_;  // collective: Gloo needs one order, also of those on several devices
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> staged(c10::intrusive_ptr<c10d::Backend> gloo) {
  return c10::make_intrusive<StagedBackend>(std::move(gloo));
}

}  // namespace late
