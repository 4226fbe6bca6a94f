// SPDX-License-Identifier: MIT
// Kind updates: every rank trains on its own and exchanges its progress every few steps; results
// land late.
//
//   base        parameters on which all ranks agree, bit for bit
//   own part    what this rank sent in an exchange that has not landed yet
//   reference   base + own parts in flight, oldest first
//   progress    parameters - reference: what the optimizer did since the last exchange
//
// Sending: accumulate progress on the residual, select, send; parameters = reference, which now has
// the new own part. Landing: base += result, parameters += result - own part; what was trimmed,
// rounded or void goes back to the residual. So the mean over ranks of (parameters + residual)
// changes by optimizer steps only.
//
// Buffers (running statistics) travel the same way beside the parameters, densely.
//
// Lanes only move bytes; parameters, base and residual are touched by the caller's thread alone.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "pliant/engine/common_share.h"
#include "pliant/engine/flat_tensors.h"
#include "pliant/engine/in_flight.h"
#include "pliant/engine/options.h"
#include "pliant/engine/progress_chunks.h"
#include "pliant/engine/services.h"
#include "pliant/engine/turnstile.h"

namespace pliant::engine {

class UpdateExchange {
 public:
  UpdateExchange(Services& services, const Options& options, CommonShare& common_share,
                 std::vector<std::size_t> parameter_sizes, std::vector<std::size_t> buffer_sizes);
  ~UpdateExchange();

  // The tensors, the same on all ranks, become the base. Nothing is in flight, nothing unsent.
  void rebase(const ModelTensors& model);
  [[nodiscard]] bool based() const { return based_; }
  void forget_base();                              // gradients from now on
  void return_to_base(const ModelTensors& model);  // parameters = base; nothing may be in flight
  // Lays progress aside: parameters = reference. take_back adds it to whatever the base is by then.
  void set_aside(const ModelTensors& model);
  void take_back(const ModelTensors& model);

  // If the exchange is not late, nothing may be in flight. Returns whether this rank's progress was
  // finite.
  bool send(const ModelTensors& model, const Sending& sending);
  // The exchange that lands next; null if none is in flight.
  [[nodiscard]] const Sending* next() const;
  // Lands it, after waiting for it if it is still under way.
  exchange::Report land(const ModelTensors& model);

  [[nodiscard]] const FlatTensors& parameters() const { return parameters_; }
  [[nodiscard]] const FlatTensors& buffers() const { return buffers_; }
  void count_memory(Memory& memory) const;
  // Zeroes `tensors`, shaped as the parameters, where exchanges that landed since forget_sent() had
  // taken entries of this rank, if their plans were sparse enough.
  void clear_at_sent(const TensorList& tensors) const;
  void forget_sent() { sent_.clear(); }

  void write(State& state);
  void read(const State& state);

 private:
  void drop_flights();
  // Adds the own parts in flight to a chunk; `one` says whose. Empty if nothing is in flight.
  [[nodiscard]] AddOwnParts own_parts(TensorsInFlight InFlight::*one) const;
  [[nodiscard]] exchange::Terms terms_of(const Sending& sending, bool are_buffers) const;
  void depart_parameters(TensorAccess& tensors, InFlight& flight);
  // `reset`: the buffers become their reference in any case.
  void depart_buffers(TensorAccess& tensors, InFlight& flight, bool reset);
  [[nodiscard]] agree::Record record_of(const Sending& sending, Seconds sent);
  void launch(const std::shared_ptr<InFlight>& flight);
  void travel(comm::Communicator& communicator, InFlight& flight, std::uint64_t turn);
  void note_wait(Seconds waited);  // of the training thread, for an exchange
  void check_arrival(InFlight& flight);
  [[nodiscard]] bool clears_at_sent(const plan::Plan& plan) const;
  void remember_base(std::uint64_t round);
  void report(InFlight& flight, const exchange::Report& parameters,
              const exchange::Report& buffers);

  Services& services_;
  const Options& options_;
  CommonShare& common_share_;
  FlatTensors parameters_;
  FlatTensors buffers_;
  bool based_ = false;
  std::deque<std::shared_ptr<InFlight>> in_flight_;  // oldest first
  std::vector<std::vector<float>> aside_;  // progress of parameters and buffers, if laid aside
  std::vector<bool> sent_;                 // by entry; empty: nothing to clear
  std::uint64_t launched_ = 0;             // by this engine
  std::size_t held_ = 0;                   // bytes that the last exchange held until it landed
  std::map<std::uint64_t, std::uint32_t> hashes_;  // of the base, by the round that had just landed
  struct Timing {  // of the training thread, since the last exchange was sent
    std::optional<Seconds> last_sending;
    Seconds waited, worked;
  } timing_;
  // One exchange at a time is on the wire, so that each is timed alone, and records go out in the
  // same order.
  Turnstile wire_;
};

}  // namespace pliant::engine
