// SPDX-License-Identifier: MIT
// The policies together: whole packets through a whole network, on a fake clock.
#include "tools/pliant-lab/net/network.h"

#include <gtest/gtest.h>

namespace pliant::lab {
namespace {

using namespace std::chrono_literals;

class NetworkTest : public testing::Test {
 protected:
  void set_all(const std::string& text, Time now = 0ms) {
    for (int host = 0; host < 3; ++host) set(host, text, now);
  }
  void set(int host, const std::string& text, Time now = 0ms) {
    Link link = network.link(host);
    apply(parse_link(text, "test"), link);
    network.set_link(host, link, now);
  }
  void send(int from, int to, std::int64_t bytes, Time now) {
    network.send({.data = {}, .bytes = bytes, .from = from, .to = to}, now);
  }
  std::vector<Time> arrivals() const {
    std::vector<Time> times;
    for (const Packet& packet : arrived) times.push_back(packet.last_bit);
    return times;
  }

  std::vector<Packet> arrived;
  Network network{3, 1, [this](Packet packet) { arrived.push_back(std::move(packet)); }};
};

TEST_F(NetworkTest, TwoHostsOnOneLinkSeeExactlyThatLink) {
  set_all("1mbit,10ms");
  send(0, 1, 1500, 0ms);
  EXPECT_EQ(network.next_event(), 12ms);
  network.advance(100ms);
  EXPECT_EQ(arrivals(), (std::vector<Time>{22ms}));  // 12 ms once, not twice, and one delay
}

TEST_F(NetworkTest, NothingHappensBeforeItsTime) {
  set_all("1mbit,10ms");
  send(0, 1, 1500, 0ms);
  network.advance(22ms - 1ns);
  EXPECT_TRUE(arrived.empty());
  network.advance(22ms);
  EXPECT_EQ(arrived.size(), 1u);
  EXPECT_EQ(network.next_event(), kNever);
}

TEST_F(NetworkTest, ALateSwitchDoesNotSlowTheNetworkDown) {
  set_all("1mbit,10ms");
  for (int i = 0; i < 10; ++i) send(0, 1, 1500, 0ms);
  network.advance(10s);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(arrivals()[static_cast<std::size_t>(i)], 10ms + (i + 1) * 12ms);
}

TEST_F(NetworkTest, TheSlowerEndSetsTheRateAndTheWorseEndTheDelay) {
  set_all("10mbit,1ms");
  set(1, "1mbit,80ms");
  send(0, 1, 1500, 0ms);
  send(1, 0, 1500, 0ms);
  send(0, 2, 1500, 0ms);
  network.advance(1s);
  EXPECT_EQ(arrivals(), (std::vector<Time>{3400us, 92ms, 92ms}));
}

TEST_F(NetworkTest, SendersShareTheReceiversLink) {
  set_all("1mbit,0ms");
  send(0, 2, 1500, 0ms);
  send(1, 2, 1500, 0ms);
  network.advance(1s);
  EXPECT_EQ(arrivals(), (std::vector<Time>{12ms, 24ms}));
}

TEST_F(NetworkTest, DelaysBetweenRegionsHoldAtLeast) {
  set_all("1ms");
  network.set_delays({{{0}, {0.05}, {0}}, {{0.07}, {0}, {0}}, {{0}, {0}, {0}}});
  send(0, 1, 100, 0ms);
  send(1, 0, 100, 0ms);
  send(0, 2, 100, 0ms);
  network.advance(1s);
  EXPECT_EQ(arrivals(), (std::vector<Time>{1ms, 50ms, 70ms}));
}

TEST_F(NetworkTest, ADownLinkLosesWhatWaitsAndWhatComes) {
  set_all("1mbit,10ms");
  for (int i = 0; i < 3; ++i) send(0, 1, 1500, 0ms);
  network.advance(12ms);
  set(0, "down", 12ms);
  send(0, 1, 1500, 13ms);
  network.advance(1s);
  EXPECT_EQ(arrived.size(), 1u);  // the one that had left
  EXPECT_EQ(network.sent(0).dropped_down, 3);
  set(0, "up", 1s);
  send(0, 1, 1500, 1s);
  network.advance(2s);
  EXPECT_EQ(arrived.size(), 2u);
}

TEST_F(NetworkTest, ABlackholeSwallowsOneWay) {
  set_all("1ms");
  set(1, "blackhole=in");
  send(0, 1, 100, 0ms);
  send(1, 0, 100, 0ms);
  network.advance(1s);
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].to, 0);
  EXPECT_EQ(network.received(1).dropped_down, 1);
}

TEST_F(NetworkTest, AChangeOfRateIsInForceAtOnce) {
  set_all("1mbit,0ms");
  for (int i = 0; i < 4; ++i) send(0, 1, 1500, 0ms);
  network.advance(12ms);
  set_all("1gbit", 12ms);
  network.advance(1s);
  EXPECT_EQ(arrivals(), (std::vector<Time>{12ms, 12ms + 12us, 12ms + 24us, 12ms + 36us}));
}

TEST_F(NetworkTest, LossIsTheSetShareOnAUniformNetwork) {
  set_all("loss=5%");
  for (int i = 0; i < 100'000; ++i) {
    send(0, 1, 100, i * 1us);
    network.advance(i * 1us);
  }
  EXPECT_NEAR(static_cast<double>(network.sent(0).dropped_loss), 5000, 250);
  EXPECT_EQ(network.sent(0).dropped_loss + static_cast<std::int64_t>(arrived.size()), 100'000);
}

TEST_F(NetworkTest, CountsBytesAndWaiting) {
  set_all("1mbit,0ms");
  send(0, 1, 1500, 0ms);
  send(0, 1, 1500, 0ms);
  network.advance(1s);
  EXPECT_EQ(network.sent(0).bytes, 3000);
  EXPECT_EQ(network.received(1).packets, 2);
  EXPECT_EQ(network.sent(0).waited_longest, 12ms);
}

}  // namespace
}  // namespace pliant::lab
