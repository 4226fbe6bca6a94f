// SPDX-License-Identifier: MIT
// Each policy alone, with a fake clock: every time is exact.
#include <gtest/gtest.h>

#include <sstream>

#include "pliant/common/errors.h"
#include "tools/pliant-lab/net/path.h"
#include "tools/pliant-lab/net/queue.h"
#include "tools/pliant-lab/net/rate.h"
#include "tools/pliant-lab/net/shaper.h"
#include "tools/pliant-lab/net/trace_file.h"

namespace pliant::lab {
namespace {

using namespace std::chrono_literals;
using namespace pliant::literals;

Rate rate_of(double bits) { return {.limit = from_bits_per_second(bits), .trace = nullptr}; }

Rate rate_of(const std::string& trace) {
  std::istringstream text(trace);
  return {.limit = {}, .trace = read_trace(text, "test")};
}

Packet packet(std::int64_t bytes, Time at) {
  return {.data = {}, .bytes = bytes, .from = 0, .to = 1, .first_bit = at, .last_bit = at};
}

TEST(Rate, TakesBytesTimesEightOverTheRate) {
  Server server(rate_of(1e6));
  EXPECT_EQ(server.finish(Time(0), 1500), 12ms);
  EXPECT_EQ(server.finish(1s, 125), 1001ms);
}

TEST(Rate, UnlimitedTakesNoTime) { EXPECT_EQ(Server().finish(5ms, 1e9), 5ms); }

TEST(Trace, DeliversAtItsOpportunitiesAndRepeats) {
  Server server(rate_of("2\n4\n10\n"));
  EXPECT_EQ(server.finish(0ms, 1500), 2ms);
  EXPECT_EQ(server.finish(2ms, 1500), 4ms);
  EXPECT_EQ(server.finish(4ms, 1500), 10ms);
  EXPECT_EQ(server.finish(10ms, 1500), 12ms);  // the second round
}

TEST(Trace, SmallPacketsShareAnOpportunity) {
  Server server(rate_of("2\n4\n"));
  EXPECT_EQ(server.finish(0ms, 1000), 2ms);
  EXPECT_EQ(server.finish(2ms, 500), 2ms);
  EXPECT_EQ(server.finish(2ms, 1), 4ms);
}

TEST(Trace, ALargePacketTakesSeveral) {
  EXPECT_EQ(Server(rate_of("1\n2\n3\n7\n")).finish(0ms, 4500), 3ms);
}

TEST(Trace, UnusedOpportunitiesAreLost) {
  EXPECT_EQ(Server(rate_of("1\n2\n3\n")).finish(3600s + 2500us, 1500), 3600s + 3ms);
}

TEST(Trace, ScalingKeepsItsShape) {
  const auto trace = scaled(*rate_of("2\n4\n").trace, 0.5, 10);
  EXPECT_EQ(trace->opportunities, (std::vector<Time>{20ms, 40ms}));
  EXPECT_DOUBLE_EQ(trace->mean_rate().value, 0.5 * rate_of("2\n4\n").trace->mean_rate().value);
}

TEST(Trace, RefusesWhatIsNotATrace) {
  for (const char* text : {"", "0\n", "5\n4\n", "1.5\n", "abc\n", "-1\n", "99999999999\n"})
    EXPECT_THROW(rate_of(text), InputError) << text;
}

TEST(Queue, DefaultIsTheLargerOf50msAnd64Packets) {
  EXPECT_TRUE(fits({}, {63, 63 * 1500L}, 1500, rate_of(1e6)));
  EXPECT_FALSE(fits({}, {64, 64 * 1500L}, 1500, rate_of(1e6)));  // 50 ms at 1 Mbit/s are 6250 bytes
  EXPECT_TRUE(
      fits({}, {400, 623'500}, 1500, rate_of(100e6)));  // 50 ms at 100 Mbit/s are 625,000 bytes
  EXPECT_FALSE(fits({}, {400, 623'501}, 1500, rate_of(100e6)));
}

TEST(Queue, BoundsInPacketsBytesAndTime) {
  EXPECT_TRUE(fits({QueueLimit::Unit::kPackets, 10}, {9, 1 << 30}, 1500, rate_of(1e6)));
  EXPECT_FALSE(fits({QueueLimit::Unit::kPackets, 10}, {10, 0}, 1, rate_of(1e6)));
  EXPECT_TRUE(fits({QueueLimit::Unit::kBytes, 3000}, {2, 1500}, 1500, rate_of(1e6)));
  EXPECT_FALSE(fits({QueueLimit::Unit::kBytes, 3000}, {2, 1501}, 1500, rate_of(1e6)));
  EXPECT_TRUE(fits({QueueLimit::Unit::kTime, 0.012}, {0, 0}, 1500, rate_of(1e6)));
  EXPECT_FALSE(fits({QueueLimit::Unit::kTime, 0.012}, {1, 1}, 1500, rate_of(1e6)));
}

TEST(Path, DelayIsExact) { EXPECT_EQ(Path(1).travel_time(3ms, {.delay = 10_ms}), 10ms); }

TEST(Path, LossTakesItsShareAndIsRepeatable) {
  const auto lost = [](std::uint64_t seed) {
    Path path(seed);
    int count = 0;
    for (int i = 0; i < 100'000; ++i) count += path.travel_time(Time(i), {.loss = 0.05}) ? 0 : 1;
    return count;
  };
  EXPECT_NEAR(lost(1), 5000, 250);
  EXPECT_EQ(lost(1), lost(1));
  EXPECT_NE(lost(1), lost(2));
}

TEST(Path, LossOfNothingAndOfEverything) {
  Path path(1);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(path.travel_time(Time(i), {.loss = 0}));
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(path.travel_time(Time(i), {.loss = 1}));
}

TEST(Path, JitterStaysInItsRangeAndKeepsOrder) {
  Path path(7);
  Time last{0};
  for (int i = 0; i < 10'000; ++i) {
    const Time sent = i * 100us;
    const Time arrival = sent + path.travel_time(sent, {.delay = 10_ms, .jitter = 2_ms}).value();
    EXPECT_GE(arrival, last);
    EXPECT_GE(arrival, sent + 8ms);
    EXPECT_LE(arrival, sent + 12ms);
    last = arrival;
  }
}

TEST(Path, ReorderedPacketsTravelWithoutTheDelay) {
  Path path(3);
  int early = 0;
  for (int i = 0; i < 10'000; ++i)
    early += path.travel_time(i * 1ms, {.delay = 10_ms, .reorder = 0.1}) == Time(0) ? 1 : 0;
  EXPECT_NEAR(early, 1000, 100);
}

TEST(Path, AfterAChangeOfDelayNewPacketsMayOvertake) {
  Path path(1);
  EXPECT_EQ(path.travel_time(0ms, {.delay = 300_ms}), 300ms);
  EXPECT_EQ(path.travel_time(1ms, {.delay = 1_ms}), 299ms);  // order is kept
  path.forget_order();
  EXPECT_EQ(path.travel_time(2ms, {.delay = 1_ms}), 1ms);
}

TEST(Shaper, ServesOneAfterTheOther) {
  Shaper shaper;
  shaper.set(rate_of(1e6), {}, 0ms);
  ASSERT_FALSE(shaper.push(packet(1500, 0ms)));
  ASSERT_FALSE(shaper.push(packet(750, 1ms)));
  EXPECT_EQ(shaper.next(), 12ms);
  EXPECT_EQ(shaper.pop().waited, 0ms);
  EXPECT_EQ(shaper.next(), 18ms);
  EXPECT_EQ(shaper.pop().waited, 11ms);
  EXPECT_EQ(shaper.next(), kNever);
}

TEST(Shaper, ANewRateIsInForceForTheRestOfThePacketUnderWay) {
  Shaper shaper;
  shaper.set(rate_of(1e6), {}, 0ms);
  ASSERT_FALSE(shaper.push(packet(1500, 0ms)));
  shaper.set(rate_of(10e6), {}, 6ms);  // half of it is through
  EXPECT_EQ(shaper.next(), 6ms + 600us);
}

TEST(Shaper, DropsTheTail) {
  Shaper shaper;
  shaper.set(rate_of(1e6), {QueueLimit::Unit::kPackets, 2}, 0ms);
  EXPECT_FALSE(shaper.push(packet(1500, 0ms)));
  EXPECT_FALSE(shaper.push(packet(1500, 0ms)));
  EXPECT_TRUE(shaper.push(packet(1500, 0ms)));
  EXPECT_EQ(shaper.drop_all(0ms).size(), 2u);
  EXPECT_EQ(shaper.backlog().bytes, 0);
}

TEST(Shaper, BitsPassThroughAsTheyCome) {
  Shaper shaper;
  shaper.set(rate_of(1e6), {}, 0ms);
  Packet late = packet(1500, 0ms);
  late.first_bit = 8ms;
  late.last_bit = 20ms;  // it took 12 ms on a link of the same rate
  ASSERT_FALSE(shaper.push(std::move(late)));
  EXPECT_EQ(shaper.next(), 20ms);
}

TEST(PacketPool, SmallPacketsMoveToSmallBuffers) {
  PacketPool pool(9000);
  EXPECT_EQ(pool.shrink(pool.take_full(), 60).size(), 60u);
  EXPECT_LT(pool.shrink(pool.take_full(), 60).capacity(), 9000u);
  EXPECT_EQ(pool.shrink(pool.take_full(), 1500).capacity(), 9000u);
}

}  // namespace
}  // namespace pliant::lab
