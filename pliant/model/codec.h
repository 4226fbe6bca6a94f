// SPDX-License-Identifier: MIT
// Codec: processor time of an exchange, by the cost table of a machine. It is everything that is
// done to a contribution besides moving bytes. An operation that was not measured costs nothing.
#pragma once

#include "pliant/common/units.h"
#include "pliant/plan/costs.h"
#include "pliant/plan/plan.h"

namespace pliant::model {

// The three acts of a flight.
struct Codec {
  Seconds depart;  // accumulate, select, encode
  Seconds travel;  // between messages: partial sums are decoded, added, trimmed and encoded again
  Seconds land;    // decode what arrived last, write the average

  [[nodiscard]] Seconds total() const { return depart + travel + land; }
  friend Codec operator*(double factor, const Codec& codec) {
    return {factor * codec.depart, factor * codec.travel, factor * codec.land};
  }
};

[[nodiscard]] Codec codec(const plan::Plan& plan, std::size_t length, std::size_t kept, int size,
                          const plan::CostTable& costs);

}  // namespace pliant::model
