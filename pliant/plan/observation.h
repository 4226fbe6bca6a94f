// SPDX-License-Identifier: MIT
// What one exchange tells about the network and the contribution: plain values, made by exchange,
// read by observe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/plan/choices.h"

namespace pliant::plan {

// The part of an exchange that a collective is.
enum class Stage : std::uint8_t {
  kScatter,
  kGather,
  kBroadcast,
  kReduce,
  kControl
};  // kControl: the all-gather of control records
inline constexpr std::array kStages = {Stage::kScatter, Stage::kGather, Stage::kBroadcast,
                                       Stage::kReduce, Stage::kControl};
constexpr std::string_view to_string(Stage stage) {
  constexpr std::array<std::string_view, 5> names = {"scatter", "gather", "bcast", "reduce",
                                                     "control"};
  return names.at(static_cast<std::size_t>(stage));
}

// Enough to price it again: schedule, ranks and the bytes of its blocks as they travelled.
struct Collective {
  Scheme scheme = Scheme::kDense;
  Stage stage = Stage::kReduce;
  std::string schedule = {};  // as in plan text: "halving-doubling"
  int ranks = 1;
  int root = 0;                    // of a broadcast
  std::vector<Bytes> blocks = {};  // in the schedule's numbering; one entry if all are alike
  bool operator==(const Collective&) const = default;
};

// One collective as this rank saw it, by the communicator's clock. Only the last rank's entry makes
// an honest duration, so the times go into the control record and the minimum over ranks is the
// sample.
struct Timing {
  Collective collective = {};
  Seconds entered = {};
  Seconds finished = {};
  bool operator==(const Timing&) const = default;
};

// One exchange of one bucket or group of buckets. Energies are sums of squares over this rank's
// entries.
struct Observation {
  std::int64_t step = 0;
  std::uint64_t epoch = 0;           // plan epoch
  std::uint64_t plan_hash = 0;       // hash(plan)
  int exchange = 0;                  // which bucket or group of the step
  std::vector<Timing> timings = {};  // in the order in which they ran
  Seconds select = {};               // accumulate and select
  Seconds encode = {};
  Seconds decode = {};  // decode and scatter
  Bytes sent = {};
  std::int64_t entries = 0;  // of the bucket or group
  std::int64_t kept = 0;     // by this rank's own selection
  std::int64_t trimmed =
      0;  // of those kept here or received, dropped on the way and given to this rank's residual
  double energy_accumulated = 0;
  double energy_sent = 0;
  double updated_fraction = 0;
  bool non_finite = false;  // somewhere, on any rank
  bool operator==(const Observation&) const = default;
};

// Energy sent / energy accumulated; 1 if there was none to send.
[[nodiscard]] double gain(const Observation& observation);

// One line, exact: parse_observation gives the same value back. For logs and for tests that replay
// them. As in
//   step=7 epoch=2 plan=00f1e2d3c4b5a697 ... non_finite=0 union.gather:bruck:2:0:128,96:1.5:1.75
// where a timing is scheme.stage:schedule:ranks:root:bytes of blocks:entered:finished, and times
// are in seconds.
[[nodiscard]] std::string to_string(const Observation& observation);
[[nodiscard]] Observation parse_observation(std::string_view text,
                                            std::string_view what = "observation");

}  // namespace pliant::plan
