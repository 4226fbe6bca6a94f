// SPDX-License-Identifier: MIT
// Summary of an engine's work so far, and its State for a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/plan/choices.h"

namespace pliant::engine {

// Bytes that an engine holds.
struct Memory {
  std::size_t residual = 0;
  std::size_t base = 0;       // updates
  std::size_t in_flight = 0;  // own parts and results of exchanges under way, at least one
  std::size_t scratch = 0;    // payloads and receive buffers
};

struct Summary {
  std::string plan;
  std::uint32_t epoch = 0;   // plan version
  std::uint64_t rounds = 0;  // that all ranks count; those of a restored state included
  std::uint64_t steps = 0;   // of training that this rank began in this engine, of either kind
  std::uint64_t exchanges = 0;
  std::uint64_t voids = 0;
  Bytes sent;            // by this rank
  Bytes control_sent;    // of that, control records
  Seconds control_time;  // spent gathering them, in a lane of its own where there are lanes
  Seconds on_the_wire;   // of all exchanges, as this rank measured them
  Seconds coding;        // select, encode, decode
  // Updates: share of the time of encoding, wire and decoding that ran beside training.
  double overlap = 0;
  double updated_fraction = 1;  // of the last exchange
  double gain = 1;
  double lengthening = 1;      // Updates::step_scale()
  double worth = 1;            // of a step under the plan in force (model/efficiency.h)
  double effective_steps = 0;  // the sum of the worth of all steps, of a restored state too
  Memory memory;
  std::string network;                 // as measured, for people; empty before the first timing
  std::vector<std::string> decisions;  // the last few changes of plan, oldest first, in short
  std::vector<std::string> reasons;    // of the same: whole plans and long reasons
};

// Averages over exchanges, the last ones counting most (common_share.h).
struct CommonShareEnergies {
  double with_others = 0;  // product of this rank's progress with what others sent
  double if_alike = 0;     // the same product if all ranks had made the same progress
};

// Everything a rank needs to go on as if it had never stopped. Taken between steps.
struct State {
  std::uint64_t step = 0;               // rounds so far
  std::uint64_t exchanges = 0;          // of gradients
  std::uint32_t epoch = 0;              // plan version
  std::string plan;                     // in force
  std::string policy;                   // what the planner has learnt, as text
  double effective_steps = 0;           // the sum of the worth of all steps so far
  std::vector<std::vector<int>> units;  // parameters that are exchanged together
  std::vector<int> voted;  // shared/var: the next leader, by exchange of a step; -1: no vote yet
  double last_norm = 0;    // of this rank's gradient, for clip_norm
  std::vector<std::vector<float>> residual;  // by parameter; empty: all zero
  CommonShareEnergies common_share;
  plan::Kind kind = plan::Kind::kGradients;  // of the next step

  // The fields below are set only if `updates` is true: there is a base.
  bool updates = false;
  std::uint64_t own_steps = 0;      // completed by this rank
  std::uint64_t next_exchange = 0;  // the step of this rank that sends next
  struct InFlight {
    std::uint64_t number = 0;  // of its round
    std::uint64_t sent = 0;    // by this rank's own count of steps
    std::uint64_t due = 0;
    std::string plan;
    std::uint32_t epoch = 0;
    bool is_void = false;
    // By tensor, parameters then buffers; empty: all zero.
    std::vector<std::vector<float>> result, own_part, returned;
  };
  std::vector<std::vector<float>> base;     // by parameter
  std::vector<std::vector<float>> buffers;  // the agreed values of the buffers
  std::vector<InFlight> in_flight;          // oldest first
};

}  // namespace pliant::engine
