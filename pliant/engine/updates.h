// SPDX-License-Identifier: MIT
// Kind updates: every rank trains on its own and tells the others how far it came, every few steps,
// landing late.
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
// Buffers (running statistics) travel the same way beside the parameters, densely; the engine
// leaves them at home while no rank's change.
//
// Lanes only move bytes; parameters, base and residual are touched by the caller's thread alone.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pliant/engine/crew.h"
#include "pliant/engine/engine.h"
#include "pliant/exchange/flight.h"
#include "pliant/exchange/residual_group.h"

namespace pliant::engine {

// One kind of tensors, side by side in one vector.
class Side {
 public:
  explicit Side(std::vector<std::size_t> sizes);

  [[nodiscard]] std::size_t size() const { return base.size(); }
  [[nodiscard]] std::size_t tensors() const { return sizes_.size(); }
  void check(Tensors tensors) const;  // their number and sizes
  void read(Tensors from);            // into `now`
  void write(Tensors to) const;       // from `now`
  [[nodiscard]] std::vector<std::vector<float>> cut(
      std::span<const float> flat) const;  // by tensor; empty: all zero
  void join(const std::vector<std::vector<float>>& tensors, std::span<float> flat) const;

  Buffer<float> base;
  Buffer<float> residual;
  Buffer<float> now;        // the tensors while they are worked on
  Buffer<float> reference;  // scratch
  Buffer<float> result;     // scratch
  std::unique_ptr<exchange::ResidualGroup> bucket;

 private:
  std::vector<std::size_t> sizes_;
};

class Updates {
 public:
  Updates(Crew& crew, const Options& options, std::vector<std::size_t> parameter_sizes,
          std::vector<std::size_t> buffer_sizes);
  ~Updates();

  // From now on all ranks agree on these; nothing is in flight, nothing unsent.
  void rebase(const Model& model);
  [[nodiscard]] bool based() const { return based_; }
  void forget_base();                       // gradients from now on
  void return_to_base(const Model& model);  // parameters = base: nothing is in flight
  // Progress is laid aside: parameters = reference. It comes back on top of whatever the base is by
  // then.
  void set_aside(const Model& model);
  void take_back(const Model& model);

  struct Sending {
    std::uint64_t number = 0;  // of the exchange, the same on all ranks
    std::uint64_t sent = 0;    // the step of this rank after which it leaves
    std::uint64_t due = 0;     // and the one after which it lands
    plan::Plan plan;
    std::uint32_t epoch = 0;
    std::uint16_t flags = 0;
    bool with_buffers = true;
    std::uint32_t rates = 0;
    std::optional<std::uint64_t> hashed = {};  // the exchange whose base is compared between ranks
    std::optional<Seconds> deadline = {};      // for each message
    [[nodiscard]] bool late() const { return due > sent; }
  };
  // If it is not late, nothing is in flight. Returns whether this rank's progress was finite.
  bool send(const Model& model, const Sending& sending);

  // The exchange that lands next, if any.
  [[nodiscard]] std::optional<Sending> next() const;
  // Waits for it, if it is still under way.
  exchange::Report land(const Model& model);

  [[nodiscard]] const Side& parameters() const { return parameters_; }
  [[nodiscard]] const Side& buffers() const { return buffers_; }
  [[nodiscard]] std::size_t in_flight_bytes() const;
  [[nodiscard]] std::size_t scratch_bytes() const;
  // Where exchanges that landed since forget_sent() had taken entries of this rank, if their plans
  // were sparse enough: zero in `tensors`, shaped as the parameters.
  void clear_at_sent(Tensors tensors) const;
  void forget_sent() { sent_.clear(); }

  void write(State& state);
  void read(const State& state);

 private:
  struct Air;  // one exchange in flight
  void drop_flights();
  static void apply(Side& side, Tensors tensors, bool late);
  [[nodiscard]] std::span<const float> reference_of(Side& side, std::size_t which) const;
  [[nodiscard]] Side& side(std::size_t which) { return which == 0 ? parameters_ : buffers_; }
  void depart(Side& side, std::size_t which, Air& air);
  exchange::Report land_side(Side& side, std::size_t which, Air& air);
  void note_wait(Seconds waited);
  void tell(Air& air, const exchange::Report& parameters,
            const exchange::Report& buffers);  // the journal

  Crew& crew_;
  const Options& options_;
  Side parameters_;
  Side buffers_;
  bool based_ = false;
  std::deque<std::shared_ptr<Air>> air_;   // oldest first
  std::vector<std::vector<float>> aside_;  // progress, by side; none: it is in the parameters
  std::vector<bool> sent_;                 // by entry; none: nothing to clear
  std::uint64_t launched_ = 0;             // by this engine
  std::map<std::uint64_t, std::uint32_t>
      hashes_;  // of the base, by the exchange that had just landed
  std::optional<Seconds> last_sending_;
  Seconds waited_, worked_;  // since then, by the training thread: for exchanges, and at them
  // One exchange at a time, or the time that one takes would tell of the others; and records go out
  // in the same order.
  Turnstile wire_;
};

}  // namespace pliant::engine
