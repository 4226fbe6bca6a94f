// SPDX-License-Identifier: MIT
// Averages what ranks learn. The one place where moving contributions and choosing plans meet:
//
//   Engine engine(std::move(communicators), parameters, options);     // collective: checks that
//   all ranks agree for each step:                                                     // kind
//   gradients
//     for each bucket, as backward produces it: engine.submit({...});  // replaced by the average,
//     done() called
//   or: engine.average(gradients);                                     // all at once; blocks
//
//   or: engine.step({parameters, buffers});                            // kind updates, after the
//   rank's own optimizer
//
// A step is over when every parameter has been submitted once. Buckets may be cut and ordered in
// any way, and differently from step to step: what is exchanged together are the engine's own units
// (arrangement.h), which no restart changes.
//
// Called by one thread; done() comes from a lane. After a failure every call throws it again.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/engine/common_share.h"
#include "pliant/engine/options.h"
#include "pliant/plan/link.h"
#include "pliant/plan/plan.h"

namespace pliant::engine {

// One communicator per lane, and one for the control records. With no lane communicators,
// everything runs in the caller, over the one for control: for simulators, debugging, and engines
// that allow no threads.
struct Communicators {
  std::vector<std::unique_ptr<comm::Communicator>> lanes;
  std::unique_ptr<comm::Communicator> control;
};

struct Piece {
  int parameter = 0;          // its place in the list that the engine was made with
  std::span<float> gradient;  // read, and replaced by the average
  // An earlier average that the caller adds to this one before anybody uses it. If the step is
  // void, so is that sum: this goes back to the residual then. Not under dense plans.
  std::span<const float> carried = {};
};

struct Submission {
  std::vector<Piece> pieces;
  std::shared_ptr<const void> owner = {};  // keeps the memory of the pieces until done
  // Once: the averages are there, or why not. In the first two steps this comes after the step's
  // last submission. Averages may be used once all of a step are there: a void among them voids the
  // others.
  std::function<void(std::exception_ptr)> done = {};
};

// All tensors of one kind, in the engine's order.
using Tensors = std::span<const std::span<float>>;

// What kind updates reads and writes. Buffers are floats that a model keeps beside its parameters,
// such as running statistics.
struct Model {
  Tensors parameters;
  Tensors buffers = {};
};

// What step() did.
struct Stepped {
  bool sent = false;
  bool landed = false;
  bool finite =
      true;  // false: this rank's progress was not, and its parameters went back to its reference
};

struct Memory {  // bytes
  std::size_t residual = 0;
  std::size_t base = 0;       // updates
  std::size_t in_flight = 0;  // updates: own parts and results under way
  std::size_t scratch = 0;    // payloads and receive room
};

struct Summary {
  std::string plan;
  std::uint32_t epoch = 0;
  std::uint64_t steps = 0;      // gradients: averaged; updates: exchanges begun
  std::uint64_t own_steps = 0;  // updates: of this rank's optimizer since the base was taken
  std::uint64_t exchanges = 0;
  std::uint64_t voids = 0;
  Bytes sent;            // by this rank
  Bytes control_sent;    // of that, control records
  Seconds control_time;  // that gathering them took, beside everything else where there are lanes
  Seconds on_the_wire;   // of all exchanges, as this rank saw them
  Seconds coding;        // select, encode, decode
  double updated_fraction = 1;  // of the last exchange
  double gain = 1;
  double lengthening = 1;  // as Engine::lengthening()
  Memory memory;
  std::vector<std::string> decisions;  // the last few, oldest first
};

// Everything a rank needs to go on as if it had never stopped, between steps.
struct State {
  std::uint64_t step = 0;
  std::uint64_t exchanges = 0;
  std::uint32_t epoch = 0;
  std::string plan;                     // in force
  std::string policy;                   // what measuring and deciding have learnt
  std::vector<std::vector<int>> units;  // parameters that are exchanged together
  std::vector<int>
      voted;             // shared/var: who leads next, by exchange of a step; -1: nobody has voted
  double last_norm = 0;  // of this rank's gradient, for clip_norm
  std::vector<std::vector<float>> residual;  // by parameter; empty: all zero
  CommonShare::Energies common_share;
  plan::Kind kind = plan::Kind::kGradients;  // of the next step
  // The rest: there is a base.
  bool updates = false;
  std::uint64_t own_steps = 0;      // completed by this rank
  std::uint64_t next_exchange = 0;  // the step of this rank that sends next
  struct InFlight {
    std::uint64_t number = 0;
    std::uint64_t sent = 0;  // by this rank's own count of steps
    std::uint64_t due = 0;
    std::string plan;
    std::uint32_t epoch = 0;
    bool is_void = false;
    // By tensor, parameters then buffers; empty: all zero.
    std::vector<std::vector<float>> result, own_part, returned;
  };
  std::vector<std::vector<float>> base;     // by parameter
  std::vector<std::vector<float>> buffers;  // the same of the buffers
  std::vector<InFlight> in_flight;          // oldest first
};

class Engine {
 public:
  Engine(Communicators communicators, std::vector<Parameter> parameters, Options options,
         std::vector<Parameter> buffers = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Fixes the plan of the coming step, unless one has begun; submit() does so by itself.
  void begin_step();
  void submit(Submission submission);
  // All parameters, in their order; blocks. Throws what went wrong.
  void average(Tensors gradients);
  // Waits until all that was submitted is done.
  void end_step();

  // Which kind the next step is of: gradients are submitted, or parameters stepped.
  [[nodiscard]] plan::Kind kind() const;
  // Updates, after each step of this rank's own optimizer: lands what is due, then sends if it is
  // time to. Ranks meet by their own count of steps. The first call, and the first after a change
  // of kind, takes the parameters as the base: they must be the same on all ranks.
  Stepped step(const Model& model);
  // Collective: exchanges and lands until every rank has come here. Afterwards nothing is in flight
  // and parameters = base.
  void settle(const Model& model);
  // The same, but this rank's progress since its last exchange stays its own: afterwards parameters
  // = base + progress.
  void meet(const Model& model);
  // Collective in spirit: these, the same on all ranks, are the base now. Residual and flights are
  // dropped.
  void rebase(const Model& model);
  [[nodiscard]] std::vector<std::vector<float>> base() const;            // by parameter
  [[nodiscard]] std::vector<std::vector<float>> agreed_buffers() const;  // the same of the buffers
  // Zeroes `tensors`, shaped as the parameters, where this rank's entries landed in the last
  // step(), at every=1 and at most 1 %.
  void clear_at_sent(Tensors tensors) const;
  // Updates, with Options::adam: the rank's own optimizer should take its next step with its
  // learning rate times this (common_share.h, docs/updates.md). Otherwise 1.
  [[nodiscard]] double lengthening() const;
  // A hash of this rank's learning rates, compared between ranks.
  void note_rates(std::uint32_t rates);

  // From the next step on; the same on all ranks, at the same step.
  void set_plan(const plan::Pins& pins);

  // Decisions take the network to be this one, instead of measuring it; nothing: measure again. The
  // same on all ranks, at the same step.
  void tell_network(const std::optional<plan::Link>& link);

  [[nodiscard]] plan::Plan plan() const;
  [[nodiscard]] Summary summary() const;
  [[nodiscard]] State state() const;
  // Throws ContractError that names what does not fit.
  void restore(const State& state);

  // Multiplies the residual: the unit of the gradients has changed (a loss scale).
  void rescale(double factor);
  // Another Options::clip_norm from the next step on: in units of the gradients, which may have
  // changed.
  void set_clip_norm(double norm);

  // For the run log, if there is one. The step they belong to is the last that has begun.
  void note(std::span<const std::pair<std::string, double>> values);
  void phase(std::string_view name);
  void message(Severity severity, std::string_view text);
  // The last step that is complete, and sums over all that are, as one JSON object; empty unless
  // there is a log or RunLogOptions::watched. From any thread.
  [[nodiscard]] std::string latest() const;

  // Waits for what is under way. Afterwards nothing may be submitted.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pliant::engine

namespace pliant {
using engine::Engine;
}  // namespace pliant
