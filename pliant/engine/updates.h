// SPDX-License-Identifier: MIT
// The updates side of an engine: each rank runs its own optimizer, and what is exchanged is the
// progress of its parameters.
//
//   optimizer.step();                       // the caller's
//   engine.step({parameters, buffers});     // lands what is due, then sends if it is time to
#pragma once

#include <cstdint>
#include <vector>

#include "pliant/engine/tensors.h"

namespace pliant::engine {

struct Parts;

class Updates {
 public:
  explicit Updates(Parts& parts) : parts_(parts) {}

  // To be called after each step of this rank's own optimizer: lands due results, then sends if an
  // exchange is due. Ranks meet by their own count of steps. The first call, and the first after a
  // change of kind, takes the parameters as the base: they must be the same on all ranks.
  Stepped step(const ModelTensors& model);
  // Collective: exchanges and lands until every rank has come here. Afterwards nothing is in flight
  // and parameters = base. kDeadline: AbsentError once the deadline has passed while others train
  // on. kUnbounded: for a rank that has no more data and serves the others.
  enum class Patience : std::uint8_t { kDeadline, kUnbounded };
  void settle(const ModelTensors& model, Patience patience = Patience::kDeadline);
  // The same, but this rank keeps its progress since its last exchange: afterwards parameters =
  // base + progress.
  void settle_keeping_progress(const ModelTensors& model);
  // No communication, but every rank must call it with identical tensors. They become the base.
  // Residual and flights are dropped.
  void rebase(const ModelTensors& model);

  // Copies of the base; no communication.
  [[nodiscard]] std::vector<std::vector<float>> base() const;     // by parameter
  [[nodiscard]] std::vector<std::vector<float>> buffers() const;  // by buffer

  // Zeroes `tensors`, shaped as the parameters, where this rank's entries landed in the last
  // step(), if the plan has every=1 and a density of at most 1 %.
  void clear_at_sent(const TensorList& tensors) const;
  // With Options::adam: the factor on the learning rate with which the rank's own optimizer should
  // take its next step (common_share.h, docs/updates.md). Otherwise 1.
  [[nodiscard]] double step_scale() const;
  // A hash of this rank's learning rates; ranks are warned if theirs differ.
  void set_rates_hash(std::uint32_t rates);

 private:
  struct Exchanged {
    bool finite = true;    // this rank's progress
    bool is_void = false;  // it landed at once and changed nothing, on all ranks
  };
  enum class Settling : std::uint8_t { kNo, kYes };
  Exchanged exchange(const ModelTensors& model, Settling settling);
  bool exchange_until_all_are_here(const ModelTensors& model, Patience patience);
  class Roll;                            // of the ranks that have come to a collective call
  bool land(const ModelTensors& model);  // returns whether the exchange was void
  void land_all(const ModelTensors& model);
  [[nodiscard]] bool has_base() const;

  Parts& parts_;
};

}  // namespace pliant::engine
