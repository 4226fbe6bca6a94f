// SPDX-License-Identifier: MIT
#include "python/native/engine.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/StringUtil.h>
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "pliant/comm/c10d/communicator.h"
#include "pliant/common/errors.h"
#include "python/native/completion.h"
#include "python/native/tensor_spans.h"

namespace py = pybind11;

namespace pliant::native {
namespace {

engine::Communicators communicators(const Groups& groups) {
  engine::Communicators made;
  // Each leaves its words in a place of its own, since lanes wait for different peers at the same
  // time, and the first in one for all.
  const auto over = [](const auto& backend, const auto& store, const std::string& name) {
    return comm::c10d::over(
        backend, {.store = c10::make_intrusive<::c10d::PrefixStore>(name, store), .common = store});
  };
  for (const auto& lane : groups.lanes)
    made.lanes.push_back(over(lane, groups.store, fmt::format("lane{}", made.lanes.size())));
  made.control = over(groups.control, groups.control_store, "control");
  made.part = groups.part;
  return made;
}

// What must be alike besides the number of entries.
std::string shape_of(const at::Tensor& parameter) {
  return fmt::format("{} as {}, strides {}", c10::toString(parameter.scalar_type()),
                     c10::str(parameter.sizes()), c10::str(parameter.strides()));
}

std::vector<engine::Parameter> describe(const std::vector<std::string>& names,
                                        const std::vector<at::Tensor>& parameters) {
  std::vector<engine::Parameter> described;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    described.push_back(
        {names.at(p), static_cast<std::size_t>(parameters[p].numel()), shape_of(parameters[p])});
  }
  return described;
}

std::unordered_map<const at::TensorImpl*, int> places_of(
    const std::vector<at::Tensor>& parameters) {
  std::unordered_map<const at::TensorImpl*, int> places;
  for (const at::Tensor& parameter : parameters)
    places.emplace(parameter.unsafeGetTensorImpl(), static_cast<int>(places.size()));
  return places;
}

std::span<const float> floats_of(const std::optional<at::Tensor>& tensor) {
  if (!tensor) return {};
  return {tensor->const_data_ptr<float>(), static_cast<std::size_t>(tensor->numel())};
}

// One bucket on its way: the frame's tensor, the floats that are exchanged (the same memory, or a
// copy if the frame's type or device is another), and what was taken out of them beforehand.
struct BucketJob {
  at::Tensor bucket;
  at::Tensor floats;
  std::shared_ptr<Staging> staging;  // null: the bucket is in host memory
  StagedCopy staged;
  std::vector<engine::Piece> pieces;
  std::vector<std::optional<at::Tensor>> carried;  // by piece
  std::shared_ptr<GradSnapshots> returned;
  at::RecordFunction range{at::RecordScope::USER_SCOPE};
  std::optional<Completion> completion;

  void depart() {
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (carried[i]) piece(i).sub_(flat(*carried[i]));
    }
  }
  void arrive() {
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (carried[i]) piece(i).add_(flat(*carried[i]));
      returned->remember(static_cast<std::size_t>(pieces[i].parameter), pieces[i].gradient);
    }
    if (staging != nullptr) {
      staging->to_device(floats, bucket);
    } else if (!floats.is_same(bucket)) {
      bucket.copy_(floats);
    }
  }
  void succeed() {
    if (staging == nullptr) return completion->succeed();
    const c10::StreamGuard on_side(staging->stream(bucket.device()));
    completion->succeed();
  }

 private:
  [[nodiscard]] at::Tensor piece(std::size_t i) const {
    return floats.narrow(0, pieces[i].gradient.data() - floats.const_data_ptr<float>(),
                         static_cast<std::int64_t>(pieces[i].gradient.size()));
  }
  static at::Tensor flat(const at::Tensor& tensor) {
    return tensor.as_strided({tensor.numel()}, {1});
  }
};

// Warnings of staging go where the engine's do.
std::shared_ptr<Staging> make_staging(const engine::Options& options) {
  return std::make_shared<Staging>([log = options.log](const std::string& text) {
    if (log) log(Severity::kWarning, text);
  });
}

void begin_range(BucketJob& job, const Engine& engine) {
  if (!job.range.isActive()) return;
  job.range._setAsync();
  job.range.before(
      fmt::format("pliant::exchange {} entries, {}", job.floats.numel(), to_string(engine.plan())));
}

}  // namespace

TensorEngine::TensorEngine(const Groups& groups, const std::vector<std::string>& names,
                           const std::vector<at::Tensor>& parameters, engine::Options options,
                           const std::vector<std::string>& buffer_names,
                           const std::vector<at::Tensor>& buffers)
    : staging_(make_staging(options)),
      chunks_(*staging_),
      returned_(std::make_shared<GradSnapshots>(parameters)),
      places_(places_of(parameters)),
      engine_(communicators(groups), describe(names, parameters), std::move(options),
              describe(buffer_names, buffers)) {}

bool TensorEngine::is_dense() const { return engine_.plan().scheme == plan::Scheme::kDense; }

std::shared_ptr<torch::jit::PythonFutureWrapper> TensorEngine::submit(
    const py::object& bucket, const std::vector<at::Tensor>& parameters) {
  const auto job = std::make_shared<BucketJob>();
  job->bucket = py::cast<at::Tensor>(bucket);
  job->returned = returned_;
  job->completion.emplace(bucket);
  auto future = job->completion->future();

  const py::gil_scoped_release no_gil;
  require(job->bucket.is_contiguous(), "submit: a bucket that is not contiguous");
  if (!job->bucket.device().is_cpu()) {
    job->staging = staging_;
    job->staged = staging_->to_host(job->bucket);
    job->floats = job->staged.host;
  } else {
    job->floats =
        job->bucket.scalar_type() == at::kFloat ? job->bucket : job->bucket.to(at::kFloat);
  }
  const bool carries =
      returned_->is_watching() && !is_dense() && (!job->staging || must_wait(parameters));
  if (carries) job->staged.wait();
  float* const begin = job->floats.mutable_data_ptr<float>();
  float* at = begin;
  const float* end = at + job->floats.numel();
  for (const at::Tensor& parameter : parameters) {
    const int place = place_of(parameter);
    const auto size = static_cast<std::size_t>(parameter.numel());
    require(size <= static_cast<std::size_t>(end - at),
            "submit: a bucket of {} entries is too small for its parameters", job->floats.numel());
    job->carried.emplace_back();
    if (carries) {
      const auto p = static_cast<std::size_t>(place);
      returned_->carry_unreached(p, job->floats.narrow(0, at - begin, parameter.numel()));
      job->carried.back() = returned_->carried(p);
    }
    job->pieces.push_back({place, {at, size}, floats_of(job->carried.back())});
    at += size;
  }
  require(at == end, "submit: a bucket of {} entries is too large for its parameters",
          job->floats.numel());
  begin_range(*job, engine_);
  job->depart();
  // Another tensor over the same memory, which Python has never seen: a thread of Gloo may be the
  // last to let go of it, while the main thread holds the interpreter and waits for that thread.
  const auto owner = std::make_shared<at::Tensor>(job->floats.detach());
  engine_.gradients().submit({.pieces = job->pieces,
                              .owner = owner,
                              .ready = [job] { job->staged.wait(); },
                              .done =
                                  [job](const std::exception_ptr& why) {
                                    std::exception_ptr failure = why;
                                    try {
                                      if (!failure) job->arrive();
                                    } catch (...) {
                                      failure = std::current_exception();
                                    }
                                    job->range.end();
                                    if (failure) {
                                      job->completion->fail(failure);
                                    } else {
                                      job->succeed();
                                    }
                                  }});
  return future;
}

// Whether the entries of some piece decide what is carried, so that they must be there now.
bool TensorEngine::must_wait(const std::vector<at::Tensor>& parameters) {
  bool must = false;
  for (const at::Tensor& parameter : parameters)
    must |= returned_->must_look(static_cast<std::size_t>(place_of(parameter)));
  if (must) return true;
  for (const at::Tensor& parameter : parameters)
    returned_->carry_nothing(static_cast<std::size_t>(place_of(parameter)));
  return false;
}

int TensorEngine::place_of(const at::Tensor& parameter) const {
  const auto place = places_.find(parameter.unsafeGetTensorImpl());
  require(place != places_.end(),
          "submit: a parameter of shape {} that the model did not have when it was attached",
          c10::str(parameter.sizes()));
  return place->second;
}

void TensorEngine::submit_averaged(const std::vector<at::Tensor>& parameters,
                                   const std::shared_ptr<torch::jit::PythonFutureWrapper>& work,
                                   c10::Device device) {
  engine::Submission submission{.is_averaged = true};
  for (const at::Tensor& parameter : parameters)
    submission.pieces.push_back({.parameter = place_of(parameter)});
  submission.ready = [future = work->fut, staging = staging_, device] {
    const c10::Stream side = staging->stream(device);
    c10::Event through(device.type());
    {
      const c10::StreamGuard on_side(side);
      future->waitAndThrow();  // and the stream waits for the work
      through.record(side);
    }
    through.synchronize();
  };
  engine_.gradients().submit(std::move(submission));
}

void TensorEngine::watch_gradients() {
  returned_->watch([this] { return engine_.kind() == plan::Kind::kGradients && !is_dense(); });
}

void TensorEngine::close(runlog::Ending ending) {
  returned_->stop();
  engine_.close(std::move(ending));
}

engine::Stepped TensorEngine::step(const std::vector<at::Tensor>& parameters,
                                   const std::vector<at::Tensor>& buffers) {
  RECORD_USER_SCOPE("pliant::step");
  TensorSpans spans(chunks_, parameters, buffers);
  const engine::Stepped stepped = engine_.step(spans.model());
  if (stepped.sent || stepped.landed) spans.note_writing();
  return stepped;
}

void TensorEngine::settle(const std::vector<at::Tensor>& parameters,
                          const std::vector<at::Tensor>& buffers,
                          engine::Updates::Patience patience) {
  RECORD_USER_SCOPE("pliant::settle");
  TensorSpans spans(chunks_, parameters, buffers);
  engine_.updates().settle(spans.model(), patience);
  spans.note_writing();
}

void TensorEngine::meet(const std::vector<at::Tensor>& parameters,
                        const std::vector<at::Tensor>& buffers) {
  RECORD_USER_SCOPE("pliant::settle");
  TensorSpans spans(chunks_, parameters, buffers);
  engine_.updates().settle_keeping_progress(spans.model());
  spans.note_writing();
}

void TensorEngine::rebase(const std::vector<at::Tensor>& parameters,
                          const std::vector<at::Tensor>& buffers) {
  engine_.rebase(TensorSpans(chunks_, parameters, buffers).model());
}

void TensorEngine::clear_at_sent(const std::vector<at::Tensor>& tensors) {
  TensorSpans spans(chunks_, tensors, {});
  engine_.updates().clear_at_sent(spans.model().parameters);
  spans.note_writing();
}

}  // namespace pliant::native
