// SPDX-License-Identifier: MIT
// Price of a collective: the time that its schedule takes, played on N clocks. exchange/ runs the
// same schedule, so model and reality cannot drift apart.
#pragma once

#include <span>
#include <vector>

#include "pliant/common/units.h"
#include "pliant/plan/link.h"
#include "pliant/schedule/schedule.h"

namespace pliant::model {

// Each rank has one full-duplex port. A message from s to p takes (latency of s + latency of p) /
// 2, so that equal links mean what they say, and then its bytes at the slower of the two ports;
// messages that meet at a port share it. A rank's round ends when its sends have arrived and its
// receives have arrived and been combined, one after the other. block_bytes[b] is the size of block
// b. The time until the last rank is done.
[[nodiscard]] Seconds price(std::span<const schedule::Schedule> ranks,
                            std::span<const double> block_bytes, std::span<const plan::Link> links,
                            double combine_seconds_per_byte = 0);

// Collectives one after the other, as one: a collective's receives are posted when its rank enters
// it, so a rank that is ahead waits with its messages for one that is not.
struct Sequence {
  std::span<const schedule::Schedule> ranks;
  std::span<const std::size_t> begins =
      {};  // the first round of each collective but the first, in order
};
[[nodiscard]] Seconds price_sequence(const Sequence& sequence, std::span<const double> block_bytes,
                                     std::span<const plan::Link> links,
                                     double combine_seconds_per_byte = 0);

// `total` bytes cut into `count` equal blocks.
[[nodiscard]] inline std::vector<double> even_blocks(double total, int count) {
  return std::vector<double>(static_cast<std::size_t>(count), total / count);
}

}  // namespace pliant::model
