// SPDX-License-Identifier: MIT
// State of one exchange of updates from departure to landing: the parameters' flight, and the
// buffers' beside it. A lane moves it; everything else is done by the training thread.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

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

  // to += own part of the entries from `begin` on.
  void add_own_part(std::size_t begin, std::span<float> to) const;
  // Adds the own part to the caller's tensors, right after departure.
  void add_own_part(FlatTensors& flat, TensorAccess& tensors) const;

  // Landing has two halves, so that all lists of tensors are void together. First: returns to the
  // residual what was trimmed, rounded or void.
  exchange::Report conclude(FlatTensors& flat);
  // Second: base += result. The tensors then become the base, or if training went on meanwhile:
  // tensors += result - own part. A sparse result touches only the entries that it has.
  struct Landing {
    TensorAccess& tensors;
    bool late = true;
    bool skips_non_finite = false;  // such entries of the base are not written to the tensors
    // Called for each chunk before it is added, with its result and own part.
    std::function<void(std::size_t begin, std::span<const float> result,
                       std::span<const float> own_part)>
        on_chunk = {};
  };
  void land(FlatTensors& flat, const Landing& landing);
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
  void add_result(std::size_t begin, std::span<float> to) const;
  [[nodiscard]] bool touched(std::size_t begin, std::size_t count,
                             std::vector<std::uint32_t>& offsets) const;
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
