// SPDX-License-Identifier: MIT
// Price of one exchange on the wire. An exchange has stages, each a schedule over payloads of
// estimated size. They are the stages that exchange/ runs, in the same order, over the same blocks.
#pragma once

#include <string_view>
#include <vector>

#include "pliant/model/price.h"
#include "pliant/plan/plan.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::model {

// One collective of an exchange.
struct Stage {
  std::string_view what;  // that travels: "entries", "sums", "indices", "values"
  const schedule::Builder* builder;
  schedule::Shape shape;
  std::vector<double> block_bytes;
  double message_bytes = 0;  // of every message, besides its blocks
};

// Stages for a bucket of `length`, of which every rank may send `kept` entries (dense ignores it);
// shared: rank `leader` leads. reduce=backend is taken for halving-doubling, which runs where the
// backend has no all-reduce of its own.
[[nodiscard]] std::vector<Stage> stages(const plan::Plan& plan, std::size_t length,
                                        std::size_t kept, int size, int leader = 0);

// The bytes that every message has besides its blocks are one more block, which all moves carry.
[[nodiscard]] schedule::Schedule schedule_of(const Stage& stage, int rank);
[[nodiscard]] std::vector<double> all_block_bytes(const Stage& stage);  // with that block

[[nodiscard]] Seconds price(const Stage& stage, std::span<const plan::Link> links);

// All stages, one after the other. Ranks that are done with one early go on to the next.
[[nodiscard]] Seconds price_exchange(const plan::Plan& plan, std::size_t length, std::size_t kept,
                                     const plan::World& world, int leader = 0);

}  // namespace pliant::model
