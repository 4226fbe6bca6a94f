// SPDX-License-Identifier: MIT
// PriceBook: the price of an exchange in two numbers. Over equal links nearly every exchange takes
// messages x latency + bytes x inverse bandwidth, where both factors follow from the schedules
// alone. They are found once, by playing the schedules over links that are all latency and over
// links that are all bandwidth, and kept in a book; thousands of plans are then priced in
// milliseconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>

#include "pliant/common/units.h"
#include "pliant/model/exchange.h"
#include "pliant/plan/link.h"
#include "pliant/plan/plan.h"

namespace pliant::model {

// Up to this many ranks an exchange's stages are played as one sequence. Beyond it (playing takes
// time quadratic in the ranks for rings) stages are priced one by one and added, which differs for
// `shared` only, and rings, chains and `direct` come from their closed forms.
inline constexpr int kPlayedRanks = 64;

// Messages and blocks of one exchange on its critical path, in units of its stages' blocks.
struct Coefficients {
  double messages = 0;
  std::array<double, 2> blocks = {};  // of the first and the second stage
  double lengths = 0;  // messages that carry a length besides their blocks (broadcasts do)
  std::array<double, 2> sent = {};  // blocks that the busiest rank sends
  double sent_messages = 0;
  double bend =
      0;  // how far price() is from linear where latency and bandwidth weigh the same, relative
};

// Weight of an exchange: its price over equal links is messages x latency + bytes x
// seconds_per_byte.
struct Weight {
  double messages = 0;
  double bytes = 0;
  double sent_bytes = 0;  // by the busiest rank
  double sent_messages = 0;
  double bend = 0;

  [[nodiscard]] Seconds over(const plan::Link& link) const {
    return {messages * link.latency.value + bytes * link.seconds_per_byte};
  }
  Weight& operator+=(const Weight& other);
};

// A memo, nothing else: the same questions get the same answers from an empty one. Not for two
// threads at once.
class PriceBook {
 public:
  // Weight of an exchange of `length` elements of which each rank may send `kept`. A fast
  // equivalent of price_exchange.
  [[nodiscard]] Weight weigh(const plan::Plan& plan, std::size_t length, std::size_t kept,
                             int size);

  // Weight of the all-gather of `bytes` per rank that carries the control records.
  [[nodiscard]] static Weight weigh_control(double bytes, int size);

 private:
  [[nodiscard]] const Coefficients& find(const plan::Plan& plan, int size, int segments);
  [[nodiscard]] Coefficients count(plan::Plan plan, int size, int segments);
  [[nodiscard]] Coefficients add_up(std::span<const Stage> stages);

  std::unordered_map<std::uint64_t, Coefficients> pages_;
  std::map<std::tuple<const schedule::Builder*, int, int>, Coefficients>
      stages_;  // by builder, ranks and segments
};

}  // namespace pliant::model
