// SPDX-License-Identifier: MIT
#include "pliant/model/exchange.h"

#include "pliant/common/errors.h"
#include "pliant/common/split.h"
#include "pliant/plan/code_sizes.h"
#include "pliant/plan/segments.h"

namespace pliant::model {
namespace {

using plan::Contents;
using schedule::Collective;

constexpr double kLengthBytes = 8;  // what each part of a broadcast begins with

struct Exchange {
  const plan::Plan& plan;
  std::size_t length;
  std::size_t kept;
  int size;
  int leader;

  [[nodiscard]] plan::Codes codes() const { return {plan.indices, plan.values}; }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(size); }

  [[nodiscard]] double bytes(std::size_t span, std::size_t count,
                             Contents contents = Contents::kBoth) const {
    return static_cast<double>(encoded_estimate(span, count, codes(), contents).value);
  }
};

std::vector<double> differences(const std::vector<std::size_t>& points) {
  std::vector<double> sizes;
  for (std::size_t b = 1; b < points.size(); ++b)
    sizes.push_back(static_cast<double>(points[b] - points[b - 1]));
  return sizes;
}

Stage stage_of(std::string_view what, Collective collective, std::string_view name,
               const schedule::Shape& shape) {
  return {.what = what,
          .builder = &schedule::find_builder(collective, name),
          .shape = shape,
          .block_bytes = {}};
}

// Blocks of `count` values each with a header of its own, or bare floats.
Stage sum_of(const Exchange& exchange, std::size_t count, bool bare) {
  const plan::AllReduce reduce = exchange.plan.reduce == plan::AllReduce::kBackend
                                     ? plan::AllReduce::kHalvingDoubling
                                     : exchange.plan.reduce;
  Stage stage =
      stage_of("values", Collective::kAllReduce, to_string(reduce), {.size = exchange.size});
  const auto blocks = static_cast<std::size_t>(stage.builder->blocks(stage.shape));
  for (const double values : differences(split_points(count, blocks))) {
    const auto n = static_cast<std::size_t>(values);
    stage.block_bytes.push_back(bare ? sizeof(float) * values
                                     : exchange.bytes(n, n, Contents::kValues));
  }
  return stage;
}

std::vector<Stage> dense(const Exchange& exchange) {
  return {sum_of(exchange, exchange.length, exchange.plan.values == plan::ValueCode::kF32)};
}

std::vector<Stage> gathered(const Exchange& exchange) {
  Stage stage = stage_of("entries", Collective::kAllGather, to_string(exchange.plan.gather),
                         {.size = exchange.size});
  stage.block_bytes.assign(exchange.ranks(), exchange.bytes(exchange.length, exchange.kept));
  return {std::move(stage)};
}

std::vector<Stage> shared(const Exchange& exchange) {
  const double payload = exchange.bytes(exchange.length, exchange.kept, Contents::kIndices);
  const int segments = exchange.plan.segments > 0
                           ? exchange.plan.segments
                           : plan::default_segments({static_cast<std::int64_t>(payload)});
  Stage indices = stage_of("indices", Collective::kBroadcast, to_string(exchange.plan.bcast),
                           {.size = exchange.size, .root = exchange.leader, .segments = segments});
  const auto parts = static_cast<std::size_t>(indices.builder->blocks(indices.shape));
  indices.block_bytes = differences(split_points(static_cast<std::size_t>(payload), parts));
  indices.message_bytes = kLengthBytes;
  return {std::move(indices), sum_of(exchange, exchange.kept, false)};
}

// A slice is trimmed to its quota before every hop, so a partial sum has as many entries as a
// rank's own part.
std::vector<Stage> srs(const Exchange& exchange) {
  const schedule::Shape shape{.size = exchange.size};
  Stage scatter =
      stage_of("entries", Collective::kReduceScatter, to_string(exchange.plan.scatter), shape);
  const std::size_t share = plan::divide_up(exchange.kept, exchange.ranks());
  for (const double length : differences(split_points(exchange.length, exchange.ranks()))) {
    const auto span = static_cast<std::size_t>(length);
    scatter.block_bytes.push_back(exchange.bytes(span, std::min(share, span)));
  }
  Stage gather = stage_of("sums", Collective::kAllGather, to_string(exchange.plan.gather), shape);
  gather.block_bytes = scatter.block_bytes;
  return {std::move(scatter), std::move(gather)};
}

// The same over blocks that are numbered from `first` on.
schedule::Schedule renumbered(schedule::Schedule rounds, int first) {
  for (auto& round : rounds) {
    for (auto* moves : {&round.sends, &round.receives}) {
      for (auto& move : *moves) {
        for (int& b : move.blocks) b += first;
      }
    }
  }
  return rounds;
}

}  // namespace

std::vector<Stage> stages(const plan::Plan& plan, std::size_t length, std::size_t kept, int size,
                          int leader) {
  require(size >= 1 && leader >= 0 && leader < size, "stages: leader {} among {} ranks", leader,
          size);
  require(kept <= length, "stages: {} entries kept of {}", kept, length);
  const Exchange exchange{plan, length, kept, size, leader};
  switch (plan.scheme) {
    case plan::Scheme::kUnion:
      return gathered(exchange);
    case plan::Scheme::kShared:
      return shared(exchange);
    case plan::Scheme::kSrs:
      return srs(exchange);
    case plan::Scheme::kDense:
      break;
  }
  return dense(exchange);
}

schedule::Schedule schedule_of(const Stage& stage, int rank) {
  schedule::Schedule rounds = stage.builder->build(rank, stage.shape);
  if (stage.message_bytes == 0) return rounds;
  const auto extra = static_cast<int>(stage.block_bytes.size());
  for (auto& round : rounds) {
    for (auto& move : round.sends) move.blocks.push_back(extra);
    for (auto& move : round.receives) move.blocks.push_back(extra);
  }
  return rounds;
}

std::vector<double> all_block_bytes(const Stage& stage) {
  std::vector<double> bytes = stage.block_bytes;
  bytes.push_back(stage.message_bytes);
  return bytes;
}

Seconds price(const Stage& stage, std::span<const plan::Link> links) {
  std::vector<schedule::Schedule> ranks;
  ranks.reserve(static_cast<std::size_t>(stage.shape.size));
  for (int rank = 0; rank < stage.shape.size; ++rank) ranks.push_back(schedule_of(stage, rank));
  return price(ranks, all_block_bytes(stage), links);
}

Seconds price_exchange(const plan::Plan& plan, std::size_t length, std::size_t kept,
                       const plan::World& world, int leader) {
  std::vector<schedule::Schedule> ranks(static_cast<std::size_t>(world.size));
  std::vector<std::size_t> begins;
  std::vector<double> block_bytes;
  for (const Stage& stage : stages(plan, length, kept, world.size, leader)) {
    if (!block_bytes.empty()) begins.push_back(ranks.front().size());
    for (int rank = 0; rank < world.size; ++rank) {
      auto& rounds = ranks[static_cast<std::size_t>(rank)];
      rounds = concatenate(std::move(rounds), renumbered(schedule_of(stage, rank),
                                                         static_cast<int>(block_bytes.size())));
    }
    const auto bytes = all_block_bytes(stage);
    block_bytes.insert(block_bytes.end(), bytes.begin(), bytes.end());
  }
  return price_sequence({ranks, begins}, block_bytes, world.links);
}

}  // namespace pliant::model
