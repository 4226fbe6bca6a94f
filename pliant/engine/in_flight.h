// SPDX-License-Identifier: MIT
// State of one exchange of updates from departure to landing: the parameters' flight, and the
// buffers' beside it. A lane moves it; everything else is done by the training thread.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "pliant/agree/record.h"
#include "pliant/engine/flat_tensors.h"
#include "pliant/engine/rounds.h"
#include "pliant/engine/state.h"
#include "pliant/exchange/flight.h"
#include "pliant/runlog/observer.h"

namespace pliant::engine {

// When one exchange leaves and lands, by this rank's own count of steps, and what goes along.
struct Sending {
  Round round;
  std::uint64_t sent = 0;  // the step of this rank after which it leaves
  std::uint64_t due = 0;   // and the one after which it lands
  bool settling = false;   // this rank serves exchanges until all ranks do
  bool with_buffers = true;
  std::uint32_t rates = 0;  // a hash of this rank's learning rates
  [[nodiscard]] bool late() const { return due > sent; }
};

// The flight of one list of tensors; or, after a checkpoint, what that flight will land.
class TensorsInFlight {
 public:
  std::unique_ptr<exchange::Flight> flight;
  exchange::Report report;

  void add_own_part(std::span<float> to) const;
  // Writes the result to tensors.result and the own part to tensors.reference, and returns to the
  // residual what was trimmed, rounded or void.
  exchange::Report land(FlatTensors& tensors);
  void give_back();  // instead of landing, after a failure

  // A flight is saved as what it will land: the result, the own part, and what goes back to the
  // residual.
  void save(FlatTensors& tensors, State::InFlight& to);
  // `first`: the place of its first tensor in the saved lists.
  void restore(const FlatTensors& tensors, const State::InFlight& from, std::size_t first);

 private:
  struct Arrived {
    Buffer<float> result, own_part, returned;
  };
  void arrive(FlatTensors& tensors);

  std::optional<Arrived> arrived_;
};

class InFlight {
 public:
  explicit InFlight(const Sending& as_sent) : sending(as_sent) {}

  const Sending sending;
  std::optional<Seconds> begin = {};  // nothing if it was restored
  std::size_t lane = 0;
  runlog::Energies energies = {};
  TensorsInFlight parameters;
  TensorsInFlight buffers;
  agree::Record record;

  [[nodiscard]] std::array<TensorsInFlight*, 2> both() { return {&parameters, &buffers}; }
  void arrive();  // it has travelled, or failed
  void wait();    // until then

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false;
};

}  // namespace pliant::engine
