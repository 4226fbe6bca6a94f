// SPDX-License-Identifier: MIT
#include "pliant/model/price.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::model {
namespace {

using schedule::Collective;

constexpr double kLatency = 1e-3;
constexpr double kPerByte = 8e-10;  // 10 Gbit/s
constexpr double kBytes = 1e7;

double priced(Collective collective, const char* name, const schedule::Shape& shape, double bytes) {
  const auto& builder = schedule::find_builder(collective, name);
  const std::vector<plan::Link> links(static_cast<std::size_t>(shape.size), {.latency = {kLatency}, .seconds_per_byte = kPerByte});
  return price(schedule::build_all(builder, shape), even_blocks(bytes, builder.blocks(shape)), links).value;
}

void expect_price(double got, double messages, double bytes_factor, const char* what, int size) {
  const double expected = messages * kLatency + bytes_factor * kBytes * kPerByte;
  EXPECT_NEAR(got, expected, 1e-9 * expected) << what << " N=" << size;
}

// The closed forms of the published cost model, for the schedules it has in mind. It counts log2 N, so powers of two.
TEST(Price, EqualsThePublishedClosedForms) {
  for (const int size : {2, 4, 8, 16, 32, 64}) {
    const double n = size;
    const double log = std::log2(n);
    expect_price(priced(Collective::kAllReduce, "ring", {size}, kBytes), 2 * (n - 1), 2 * (n - 1) / n, "all-reduce ring", size);
    expect_price(priced(Collective::kAllReduce, "tree", {size}, kBytes), 2 * log, 2 * log, "all-reduce tree", size);
    expect_price(priced(Collective::kBroadcast, "binomial", {size}, kBytes), log, log, "broadcast", size);
    for (const char* name : {"recursive-doubling", "bruck"}) {  // there M is what each rank brings
      expect_price(priced(Collective::kAllGather, name, {size}, kBytes * n), log, n - 1, name, size);
    }
  }
}

// And those it does not have, at any size.
TEST(Price, EqualsTheClosedFormsOfTheOthers) {
  for (int size = 2; size <= 33; ++size) {
    const double n = size;
    const double log = schedule::ceil_log2(size);
    const double share = (n - 1) / n;
    expect_price(priced(Collective::kAllReduce, "halving-doubling", {size}, kBytes), 2 * log, 2 * share, "halving-doubling", size);
    expect_price(priced(Collective::kReduceScatter, "circulant", {size}, kBytes), log, share, "circulant", size);
    expect_price(priced(Collective::kReduceScatter, "direct", {size}, kBytes), 1, share, "direct", size);
    expect_price(priced(Collective::kReduceScatter, "ring", {size}, kBytes), n - 1, share, "ring", size);
    expect_price(priced(Collective::kAllGather, "bruck", {size}, kBytes), log, share, "bruck", size);
    const int segments = 10;
    expect_price(priced(Collective::kBroadcast, "chain", {size, 0, segments}, kBytes), n - 2 + segments, (n - 2 + segments) / segments,
                 "chain", size);
    if (schedule::is_power_of_two(size)) {
      expect_price(priced(Collective::kBroadcast, "scatter-allgather", {size}, kBytes), 2 * log, 2 * share, "scatter-allgather", size);
      expect_price(priced(Collective::kAllReduce, "recursive-doubling", {size}, kBytes), log, log, "recursive-doubling", size);
    }
  }
}

TEST(Price, OneRankIsFree) {
  for (const auto& builder : schedule::builders())
    EXPECT_EQ(priced(builder.collective, builder.name.data(), {1}, kBytes), 0) << builder.name;
}

TEST(Price, CombiningCostsWhereItHappens) {
  const auto ring = schedule::build_all(schedule::find_builder(Collective::kAllReduce, "ring"), {4});
  const std::vector<plan::Link> links(4, {.latency = {kLatency}, .seconds_per_byte = kPerByte});
  const auto blocks = even_blocks(kBytes, 4);
  const double without = price(ring, blocks, links).value;
  EXPECT_NEAR(price(ring, blocks, links, 1e-9).value, without + 0.75 * kBytes * 1e-9, 1e-12);
}

// A ring goes at the pace of its slowest port; the latency of one message is the mean of both ends.
TEST(Price, OneSlowRankHoldsUpTheRing) {
  std::vector<plan::Link> links(4, {.latency = {kLatency}, .seconds_per_byte = kPerByte});
  links[2] = {.latency = {3 * kLatency}, .seconds_per_byte = 10 * kPerByte};
  const auto ring = schedule::build_all(schedule::find_builder(Collective::kAllGather, "ring"), {4});
  const double got = price(ring, even_blocks(kBytes, 4), links).value;
  EXPECT_NEAR(got, 3 * (2 * kLatency + kBytes / 4 * 10 * kPerByte), 1e-9);
}

TEST(Price, RefusesInputsThatDoNotFit) {
  const auto ring = schedule::build_all(schedule::find_builder(Collective::kAllGather, "ring"), {4});
  const std::vector<plan::Link> links(3);
  EXPECT_THROW((void)price(ring, even_blocks(1, 4), links), ContractError);
  EXPECT_THROW((void)price({}, {}, {}), ContractError);
}

}  // namespace
}  // namespace pliant::model
