// SPDX-License-Identifier: MIT
#include "pliant/model/coefficients.h"

#include <algorithm>
#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/model/exchange.h"
#include "pliant/plan/code_sizes.h"
#include "pliant/plan/segments.h"

namespace pliant::model {
namespace {

using plan::Contents;

// The sizes that stages() gives the blocks of an exchange: of each stage the largest block, and
// what every message of the first stage has besides.
struct Sizes {
  std::array<double, 2> block = {};
  double length_bytes = 0;
  int segments = 0;  // of a segmented broadcast
};

std::size_t values_per_block(plan::AllReduce reduce, std::size_t count, int size) {
  const bool whole =
      reduce == plan::AllReduce::kRecursiveDoubling || reduce == plan::AllReduce::kTree;
  return whole ? count : plan::divide_up(count, static_cast<std::size_t>(size));
}

double estimate(const plan::Plan& plan, std::size_t span, std::size_t count, Contents contents) {
  return static_cast<double>(
      encoded_estimate(span, count, {plan.indices, plan.values}, contents).value);
}

double sum_block(const plan::Plan& plan, std::size_t count, bool bare, int size) {
  const std::size_t values = values_per_block(plan.reduce, count, size);
  return bare ? sizeof(float) * static_cast<double>(values)
              : estimate(plan, values, values, Contents::kValues);
}

Sizes sizes_of(const plan::Plan& plan, std::size_t length, std::size_t kept, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  switch (plan.scheme) {
    case plan::Scheme::kUnion:
      return {.block = {estimate(plan, length, kept, Contents::kBoth), 0}};
    case plan::Scheme::kSrs: {
      const std::size_t span = plan::divide_up(length, ranks);
      const double slice =
          estimate(plan, span, std::min(plan::divide_up(kept, ranks), span), Contents::kBoth);
      return {.block = {slice, slice}};
    }
    case plan::Scheme::kShared: {
      const double payload = estimate(plan, length, kept, Contents::kIndices);
      const bool segmented = is_segmented(plan.bcast);
      const int segments = plan.segments > 0
                               ? plan.segments
                               : plan::default_segments({static_cast<std::int64_t>(payload)});
      const double parts = segmented                                  ? segments
                           : plan.bcast == plan::Broadcast::kBinomial ? 1
                                                                      : size;
      return {.block = {std::ceil(payload / parts), sum_block(plan, kept, false, size)},
              .length_bytes = 8,
              .segments = segmented ? segments : 0};
    }
    case plan::Scheme::kDense:
      break;
  }
  return {.block = {sum_block(plan, length, plan.values == plan::ValueCode::kF32, size), 0}};
}

// What decides the coefficients, and nothing else. Each field has room to spare.
std::uint64_t page_of(const plan::Plan& plan, int size, int segments) {
  const auto reduce =
      plan.reduce == plan::AllReduce::kBackend ? plan::AllReduce::kHalvingDoubling : plan.reduce;
  std::uint64_t key = static_cast<std::uint64_t>(plan.scheme);
  key = key << 4 | static_cast<std::uint64_t>(plan.scatter);
  key = key << 4 | static_cast<std::uint64_t>(plan.gather);
  key = key << 4 | static_cast<std::uint64_t>(plan.bcast);
  key = key << 4 | static_cast<std::uint64_t>(reduce);
  key = key << 16 | static_cast<std::uint64_t>(segments);
  return key << 24 | static_cast<std::uint64_t>(size);
}

// All stages of an exchange as one sequence of schedules over numbered blocks; a stage's blocks are
// alike.
struct Played {
  std::vector<schedule::Schedule> ranks;
  std::vector<std::size_t> begins;
  std::vector<int> stage_of_block;  // 0, 1; 2: the length that a message carries

  Played(std::span<const Stage> stages, int size) : ranks(static_cast<std::size_t>(size)) {
    for (std::size_t s = 0; s < stages.size(); ++s) append(stages[s], static_cast<int>(s));
  }

  [[nodiscard]] double price(double latency, std::array<double, 3> bytes, double per_byte) const {
    std::vector<double> block_bytes;
    for (const int stage : stage_of_block)
      block_bytes.push_back(bytes.at(static_cast<std::size_t>(stage)));
    const std::vector<plan::Link> links(ranks.size(),
                                        {.latency = {latency}, .seconds_per_byte = per_byte});
    return price_sequence({ranks, begins}, block_bytes, links).value;
  }

 private:
  void append(const Stage& stage, int number) {
    const auto first = static_cast<int>(stage_of_block.size());
    if (number > 0) begins.push_back(ranks.front().size());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      schedule::Schedule rounds = schedule_of(stage, static_cast<int>(r));
      for (auto& round : rounds) {
        for (auto* moves : {&round.sends, &round.receives}) {
          for (auto& move : *moves) {
            for (int& b : move.blocks) b += first;
          }
        }
      }
      ranks[r] = concatenate(std::move(ranks[r]), rounds);
    }
    stage_of_block.insert(stage_of_block.end(), stage.block_bytes.size(), number);
    if (stage.message_bytes > 0) stage_of_block.push_back(2);
  }
};

void count_sent(const Played& played, Coefficients& c) {
  for (const auto& rounds : played.ranks) {
    std::array<double, 3> blocks = {};
    double messages = 0;
    for (const auto& round : rounds) {
      messages += static_cast<double>(round.sends.size());
      for (const auto& move : round.sends) {
        for (const int b : move.blocks)
          ++blocks.at(static_cast<std::size_t>(played.stage_of_block[static_cast<std::size_t>(b)]));
      }
    }
    c.sent_messages = std::max(c.sent_messages, messages);
    for (std::size_t s = 0; s < 2; ++s) c.sent.at(s) = std::max(c.sent.at(s), blocks.at(s));
  }
}

// The probes: links that are all latency, then all bandwidth with the bytes in one kind of block
// only, then one where both weigh the same, which tells whether the sum of the others is the whole
// story.
Coefficients play(std::span<const Stage> stages, int size) {
  const Played played(stages, size);
  Coefficients c;
  c.messages = played.price(1, {}, 0);
  c.blocks[0] = played.price(0, {1, 0, 0}, 1);
  if (stages.size() > 1) c.blocks[1] = played.price(0, {0, 1, 0}, 1);
  if (stages.front().message_bytes > 0) c.lengths = played.price(0, {0, 0, 1}, 1);
  count_sent(played, c);
  const double parts = static_cast<double>(stages.size());
  const std::array<double, 3> even = {c.messages / parts / c.blocks[0],
                                      stages.size() > 1 ? c.messages / parts / c.blocks[1] : 0, 0};
  if (c.messages > 0) c.bend = std::abs(played.price(1, even, 1) / (2 * c.messages) - 1);
  return c;
}

// Schedules with about N rounds, or N messages in a round, at any N.
bool has_closed_form(std::string_view name) {
  return name == "ring" || name == "chain" || name == "direct";
}

Coefficients closed_form(const Stage& stage) {
  const double n = stage.shape.size;
  if (stage.builder->name == "chain") {
    const double rounds = n - 2 + stage.shape.segments;
    return {.messages = rounds,
            .blocks = {rounds, 0},
            .lengths = rounds,
            .sent = {static_cast<double>(stage.shape.segments), 0},
            .sent_messages = static_cast<double>(stage.shape.segments)};
  }
  const bool both_ways = stage.builder->collective == schedule::Collective::kAllReduce;
  const double hops = (both_ways ? 2 : 1) * (n - 1);
  return {.messages = stage.builder->name == "direct" ? 1 : hops,
          .blocks = {hops, 0},
          .sent = {hops, 0},
          .sent_messages = hops};
}

Coefficients alone(const Stage& stage) {
  return has_closed_form(stage.builder->name) ? closed_form(stage)
                                              : play({&stage, 1}, stage.shape.size);
}

Coefficients along(const Coefficients& a, const Coefficients& b, double t) {
  const auto line = [t](double x, double y) { return x + t * (y - x); };
  return {.messages = line(a.messages, b.messages),
          .blocks = {line(a.blocks[0], b.blocks[0]), line(a.blocks[1], b.blocks[1])},
          .lengths = line(a.lengths, b.lengths),
          .sent = {line(a.sent[0], b.sent[0]), line(a.sent[1], b.sent[1])},
          .sent_messages = line(a.sent_messages, b.sent_messages),
          .bend = b.bend};
}

// Once a pipeline is full every further pair of segments adds the same, so two numbers of segments
// tell all others.
constexpr int kFewSegments = 8;
constexpr int kFewerSegments = 6;

}  // namespace

Weight& Weight::operator+=(const Weight& other) {
  messages += other.messages;
  bytes += other.bytes;
  sent_bytes += other.sent_bytes;
  sent_messages += other.sent_messages;
  bend = std::max(bend, other.bend);
  return *this;
}

// Stages one by one. Each is in many exchanges, so it has a page of its own.
Coefficients PriceBook::add_up(std::span<const Stage> stages) {
  Coefficients sum;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    const auto key = std::tuple{stage.builder, stage.shape.size,
                                stage.builder->segmented ? stage.shape.segments : 0};
    auto known = stages_.find(key);
    if (known == stages_.end()) known = stages_.emplace(key, alone(stage)).first;
    const Coefficients& c = known->second;
    sum.messages += c.messages;
    sum.blocks.at(s) = c.blocks[0];
    sum.lengths += c.lengths;
    sum.sent.at(s) = c.sent[0];
    sum.sent_messages += c.sent_messages;
  }
  return sum;
}

// The sizes do not matter here, but every block must have one.
Coefficients PriceBook::count(plan::Plan plan, int size, int segments) {
  plan.segments = segments;
  const auto all = stages(plan, 1'000'000, 1'000'000, size);
  return size <= kPlayedRanks ? play(all, size) : add_up(all);
}

const Coefficients& PriceBook::find(const plan::Plan& plan, int size, int segments) {
  const std::uint64_t page = page_of(plan, size, segments);
  if (const auto known = pages_.find(page); known != pages_.end()) return known->second;
  if (segments <= kFewSegments)
    return pages_.emplace(page, count(plan, size, segments)).first->second;
  const Coefficients few = find(plan, size, kFewSegments);
  const Coefficients fewer = find(plan, size, kFewerSegments);
  return pages_
      .emplace(page, along(fewer, few,
                           (segments - kFewerSegments) /
                               static_cast<double>(kFewSegments - kFewerSegments)))
      .first->second;
}

Weight PriceBook::weigh(const plan::Plan& plan, std::size_t length, std::size_t kept, int size) {
  require(size >= 1 && kept <= length, "weigh: {} entries kept of {} among {} ranks", kept, length,
          size);
  if (size == 1 || length == 0) return {};
  const Sizes sizes = sizes_of(plan, length, kept, size);
  const Coefficients& c = find(plan, size, sizes.segments);
  return {.messages = c.messages,
          .bytes = c.blocks[0] * sizes.block[0] + c.blocks[1] * sizes.block[1] +
                   c.lengths * sizes.length_bytes,
          .sent_bytes = c.sent[0] * sizes.block[0] + c.sent[1] * sizes.block[1] +
                        (sizes.length_bytes > 0 ? c.sent_messages * sizes.length_bytes : 0),
          .sent_messages = c.sent_messages,
          .bend = c.bend};
}

Weight PriceBook::weigh_control(double bytes, int size) {
  const double others = (size - 1) * bytes;
  const double rounds = schedule::ceil_log2(size);
  return {.messages = rounds, .bytes = others, .sent_bytes = others, .sent_messages = rounds};
}

}  // namespace pliant::model
