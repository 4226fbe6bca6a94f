// SPDX-License-Identifier: MIT
#include "pliant/model/price.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/model/sharing.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::model {
namespace {

using schedule::Collective;

constexpr double kLatency = 1e-3;
constexpr double kPerByte = 8e-10;  // 10 Gbit/s
constexpr double kBytes = 1e7;

double priced(Collective collective, const char* name, const schedule::Shape& shape, double bytes) {
  const auto& builder = schedule::find_builder(collective, name);
  const std::vector<plan::Link> links(static_cast<std::size_t>(shape.size),
                                      {.latency = {kLatency}, .seconds_per_byte = kPerByte});
  return price(schedule::build_all(builder, shape), even_blocks(bytes, builder.blocks(shape)),
               links)
      .value;
}

void expect_price(double got, double messages, double bytes_factor, const char* what, int size) {
  const double expected = messages * kLatency + bytes_factor * kBytes * kPerByte;
  EXPECT_NEAR(got, expected, 1e-9 * expected) << what << " N=" << size;
}

// The closed forms of the published cost model, for the schedules it has in mind. It counts log2 N,
// so powers of two.
TEST(Price, EqualsThePublishedClosedForms) {
  for (const int size : {2, 4, 8, 16, 32, 64}) {
    const double n = size;
    const double log = std::log2(n);
    expect_price(priced(Collective::kAllReduce, "ring", {size}, kBytes), 2 * (n - 1),
                 2 * (n - 1) / n, "all-reduce ring", size);
    expect_price(priced(Collective::kAllReduce, "tree", {size}, kBytes), 2 * log, 2 * log,
                 "all-reduce tree", size);
    expect_price(priced(Collective::kBroadcast, "binomial", {size}, kBytes), log, log, "broadcast",
                 size);
    for (const char* name : {"recursive-doubling", "bruck"}) {  // there M is what each rank brings
      expect_price(priced(Collective::kAllGather, name, {size}, kBytes * n), log, n - 1, name,
                   size);
    }
  }
}

// And those it does not have, at any size.
TEST(Price, EqualsTheClosedFormsOfTheOthers) {
  for (int size = 2; size <= 33; ++size) {
    const double n = size;
    const double log = schedule::ceil_log2(size);
    const double share = (n - 1) / n;
    expect_price(priced(Collective::kAllReduce, "halving-doubling", {size}, kBytes), 2 * log,
                 2 * share, "halving-doubling", size);
    expect_price(priced(Collective::kReduceScatter, "circulant", {size}, kBytes), log, share,
                 "circulant", size);
    expect_price(priced(Collective::kReduceScatter, "direct", {size}, kBytes), 1, share, "direct",
                 size);
    expect_price(priced(Collective::kReduceScatter, "ring", {size}, kBytes), n - 1, share, "ring",
                 size);
    expect_price(priced(Collective::kAllGather, "bruck", {size}, kBytes), log, share, "bruck",
                 size);
    const int segments = 10;
    expect_price(priced(Collective::kBroadcast, "chain", {size, 0, segments}, kBytes),
                 n - 2 + segments, (n - 2 + segments) / segments, "chain", size);
    if (schedule::is_power_of_two(size)) {
      expect_price(priced(Collective::kBroadcast, "scatter-allgather", {size}, kBytes), 2 * log,
                   2 * share, "scatter-allgather", size);
      expect_price(priced(Collective::kAllReduce, "recursive-doubling", {size}, kBytes), log, log,
                   "recursive-doubling", size);
    }
  }
}

TEST(Price, OneRankIsFree) {
  for (const auto& builder : schedule::builders())
    EXPECT_EQ(priced(builder.collective, builder.name.data(), {1}, kBytes), 0) << builder.name;
}

TEST(Price, CombiningCostsWhereItHappens) {
  const auto ring =
      schedule::build_all(schedule::find_builder(Collective::kAllReduce, "ring"), {4});
  const std::vector<plan::Link> links(4, {.latency = {kLatency}, .seconds_per_byte = kPerByte});
  const auto blocks = even_blocks(kBytes, 4);
  const double without = price(ring, blocks, links).value;
  EXPECT_NEAR(price(ring, blocks, links, 1e-9).value, without + 0.75 * kBytes * 1e-9, 1e-12);
}

// A ring goes at the pace of its slowest port; the latency of one message is the mean of both ends.
TEST(Price, OneSlowRankHoldsUpTheRing) {
  std::vector<plan::Link> links(4, {.latency = {kLatency}, .seconds_per_byte = kPerByte});
  links[2] = {.latency = {3 * kLatency}, .seconds_per_byte = 10 * kPerByte};
  const auto ring =
      schedule::build_all(schedule::find_builder(Collective::kAllGather, "ring"), {4});
  const double got = price(ring, even_blocks(kBytes, 4), links).value;
  EXPECT_NEAR(got, 3 * (2 * kLatency + kBytes / 4 * 10 * kPerByte), 1e-9);
}

// The quick playback and the one from event to event are twins wherever no two messages meet.
TEST(Price, TheTwoPlaybacksAgree) {
  for (const auto& builder : schedule::builders()) {
    for (int size = 2; size <= 17; ++size) {
      const schedule::Shape shape{size, 0, 5};
      const auto ranks = schedule::build_all(builder, shape);
      const auto blocks = even_blocks(kBytes, builder.blocks(shape));
      std::vector<plan::Link> links(static_cast<std::size_t>(size),
                                    {.latency = {kLatency}, .seconds_per_byte = kPerByte});
      for (const bool equal : {true, false}) {
        if (!equal) links.back() = {.latency = {3 * kLatency}, .seconds_per_byte = 2 * kPerByte};
        const double quick = price(ranks, blocks, links, 1e-10).value;
        EXPECT_NEAR(price_sharing({ranks}, blocks, links, 1e-10).value, quick, 1e-9 * quick)
            << builder.name << " N=" << size;
      }
    }
  }
}

// Ranks 1 and 2 send to rank 0 at once, 1 twice as much: both get half the port until 2 is done.
TEST(Price, MessagesThatMeetShareThePort) {
  const std::vector<schedule::Schedule> ranks = {
      {{.sends = {}, .receives = {{1, {0, 1}}, {2, {2}}}}},
      {{.sends = {{0, {0, 1}}}, .receives = {}}},
      {{.sends = {{0, {2}}}, .receives = {}}}};
  const std::vector<plan::Link> links(3, {.latency = {kLatency}, .seconds_per_byte = kPerByte});
  EXPECT_NEAR(price(ranks, even_blocks(kBytes, 3), links).value, kLatency + kBytes * kPerByte,
              1e-12);
  // Rank 2 goes on to send to rank 3, and may do so only when its own message is through: after
  // 2/3, not 1/3, of the bytes.
  auto longer = ranks;
  for (auto& rank : longer) rank.emplace_back();
  longer.push_back({{}, {.sends = {}, .receives = {{2, {0, 1, 2}}}}});
  longer[2][1].sends = {{3, {0, 1, 2}}};
  const std::vector<plan::Link> four(4, links.front());
  EXPECT_NEAR(price(longer, even_blocks(kBytes, 3), four).value,
              2 * kLatency + 5.0 / 3 * kBytes * kPerByte, 1e-12);
}

TEST(Price, RefusesInputsThatDoNotFit) {
  const auto ring =
      schedule::build_all(schedule::find_builder(Collective::kAllGather, "ring"), {4});
  const std::vector<plan::Link> links(3);
  EXPECT_THROW((void)price(ring, even_blocks(1, 4), links), ContractError);
  EXPECT_THROW((void)price({}, {}, {}), ContractError);
  const std::vector<plan::Link> enough(4);
  EXPECT_THROW((void)price(ring, even_blocks(1, 2), enough), ContractError);
  auto uneven = ring;
  uneven.back().pop_back();
  EXPECT_THROW((void)price(uneven, even_blocks(1, 4), enough), ContractError);
}

// Rank 0 sends to 1, then to 2; then 0 and 1 change places. Rank 1 is ready for the second
// collective after one message, but rank 0 enters it after two, and only then takes in what 1 has
// for it.
TEST(PriceSequence, AMessageWaitsUntilItsReceiverHasEnteredTheCollective) {
  using schedule::Round;
  const std::vector<schedule::Schedule> ranks = {
      {Round{{{1, {0}}}, {}}, Round{{{2, {0}}}, {}}, Round{{}, {{1, {1}}}}},
      {Round{{}, {{0, {0}}}}, Round{}, Round{{{0, {1}}}, {}}},
      {Round{}, Round{{}, {{0, {0}}}}, Round{}},
  };
  const std::vector<plan::Link> links(3, {.latency = {kLatency}, .seconds_per_byte = kPerByte});
  const std::vector<double> bytes = {kBytes, kBytes};
  const double message = kLatency + kBytes * kPerByte;
  const std::vector<std::size_t> begins = {2};
  EXPECT_NEAR(price(ranks, bytes, links).value, 2 * message, 1e-12);
  EXPECT_NEAR(price_sequence({ranks, begins}, bytes, links).value, 3 * message, 1e-12);
  EXPECT_NEAR(price_sharing({ranks, begins}, bytes, links, 0).value, 3 * message, 1e-9);
}

}  // namespace
}  // namespace pliant::model
