// SPDX-License-Identifier: MIT
// Engine that averages gradients or parameter updates over ranks: it moves contributions, measures
// the network while it does, and chooses plans.
//
//   Engine engine(std::move(communicators), parameters, options);  // collective: ranks must agree
//   for each step:
//     if (engine.kind() == plan::Kind::kGradients) engine.average(gradients);
//     ...the rank's own optimizer steps...
//     engine.step({parameters});
//
// engine.gradients() hands over gradients bucket by bucket, engine.updates() has everything about
// base and progress, engine.log() adds lines to the run log.
//
// Called by one thread. After a failure every call throws it again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/common/errors.h"
#include "pliant/engine/gradients.h"
#include "pliant/engine/notes.h"
#include "pliant/engine/options.h"
#include "pliant/engine/state.h"
#include "pliant/engine/tensors.h"
#include "pliant/engine/updates.h"
#include "pliant/plan/link.h"
#include "pliant/plan/plan.h"
#include "pliant/runlog/options.h"

namespace pliant::engine {

// One communicator per lane, and one for the control records. Without lanes everything runs in the
// caller, over the one for control: for simulators, debugging, and backends that allow no threads.
//
// Islands: lanes join the ranks that hold the same part of the model, one from each island, and
// control joins all ranks of all islands. Only plans of kind updates are possible then.
struct Communicators {
  std::vector<std::unique_ptr<comm::Communicator>> lanes;
  std::unique_ptr<comm::Communicator> control;
  std::uint16_t part = 0;  // the same on all ranks of a lane, and on no others
};

class Engine {
 public:
  Engine(Communicators communicators, std::vector<Parameter> parameters, Options options,
         std::vector<Parameter> buffers = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The kind of the next step: gradients are submitted, or parameters stepped.
  [[nodiscard]] plan::Kind kind() const;
  [[nodiscard]] plan::Plan plan() const;  // in force
  // Worth of a step under the plan in force: its progress relative to a step of plain DDP, at most
  // 1. The same on all ranks at the same step.
  [[nodiscard]] double worth() const;
  // The sum of the worth of all steps so far.
  [[nodiscard]] double effective_steps() const;
  // From the next step on; the same on all ranks, at the same step.
  void set_plan(const plan::Pins& pins);
  // Decisions take the network to be this one; nothing: they measure it again. The same on all
  // ranks, at the same step.
  void set_network(const std::optional<plan::Link>& link);

  [[nodiscard]] Gradients& gradients() { return gradients_; }
  [[nodiscard]] Updates& updates() { return updates_; }
  [[nodiscard]] const Updates& updates() const { return updates_; }
  [[nodiscard]] Notes& log() { return log_; }
  [[nodiscard]] const Notes& log() const { return log_; }

  // Short forms for simple training loops.
  void average(Tensors gradients) { gradients_.average(gradients); }
  Stepped step(const ModelTensors& model) { return updates_.step(model); }
  void settle(const ModelTensors& model) { updates_.settle(model); }
  void rebase(const ModelTensors& model) { updates_.rebase(model); }

  [[nodiscard]] Summary summary() const;
  [[nodiscard]] State state() const;
  // Throws ContractError that names what does not fit.
  void restore(const State& state);

  // Waits for what is under way. Afterwards nothing may be submitted. `ending` is for the run log;
  // a failure of the engine itself comes first, unless the run was interrupted.
  void close(runlog::Ending ending = {});

  // Names of version 0.1, kept for one release.
  // clang-format off
  [[deprecated("gradients()")]] void begin_step() { gradients_.begin_step(); }
  [[deprecated("gradients()")]] void submit(Submission all) { gradients_.submit(std::move(all)); }
  [[deprecated("gradients()")]] void end_step() { gradients_.end_step(); }
  [[deprecated("gradients()")]] void rescale(double factor) { gradients_.rescale(factor); }
  [[deprecated("gradients()")]] void set_clip_norm(double norm) { gradients_.set_clip_norm(norm); }
  [[deprecated("updates()")]] void meet(const ModelTensors& model) { updates_.settle_keeping_progress(model); }
  [[deprecated("updates()")]] [[nodiscard]] std::vector<std::vector<float>> base() const { return updates_.base(); }
  [[deprecated("updates()")]] [[nodiscard]] std::vector<std::vector<float>> agreed_buffers() const { return updates_.buffers(); }
  [[deprecated("updates()")]] void clear_at_sent(const TensorList& tensors) const { updates_.clear_at_sent(tensors); }
  [[deprecated("updates()")]] [[nodiscard]] double lengthening() const { return updates_.step_scale(); }
  [[deprecated("updates()")]] void note_rates(std::uint32_t rates) { updates_.set_rates_hash(rates); }
  [[deprecated("set_network()")]] void tell_network(const std::optional<plan::Link>& link) { set_network(link); }
  [[deprecated("log()")]] void note(std::span<const std::pair<std::string, double>> values) { log_.note(values); }
  [[deprecated("log()")]] void phase(std::string_view name) { log_.phase(name); }
  [[deprecated("log()")]] void message(Severity severity, std::string_view text) { log_.message(severity, text); }
  [[deprecated("log()")]] [[nodiscard]] std::string latest() const { return log_.latest(); }
  // clang-format on

 private:
  std::unique_ptr<Parts> parts_;
  Gradients gradients_;
  Updates updates_;
  Notes log_;
};

using pliant::Disagreement;  // thrown by all ranks together
using Model = ModelTensors;  // its name in version 0.1

}  // namespace pliant::engine

namespace pliant {
using engine::Engine;
}  // namespace pliant
