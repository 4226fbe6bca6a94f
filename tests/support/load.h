// SPDX-License-Identifier: MIT
// Messages and bytes that a rank sends in one stage of an exchange, counted from its schedule.
#pragma once

#include "pliant/model/exchange.h"

namespace pliant::testing {

struct Load {
  int messages = 0;
  double bytes = 0;
};

inline Load load(const model::Stage& stage, int rank) {
  Load total;
  const std::vector<double> bytes = model::all_block_bytes(stage);
  for (const auto& round : model::schedule_of(stage, rank)) {
    total.messages += static_cast<int>(round.sends.size());
    for (const auto& move : round.sends) {
      for (const int b : move.blocks) total.bytes += bytes[static_cast<std::size_t>(b)];
    }
  }
  return total;
}

}  // namespace pliant::testing
