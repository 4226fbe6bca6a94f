// SPDX-License-Identifier: MIT
#include "pliant/plan/link.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "pliant/common/errors.h"

namespace pliant::plan {
namespace {

using namespace literals;

TEST(Link, ReadsAndPrintsBandwidthAndLatency) {
  const Link link = parse_link("100mbit,10ms");
  EXPECT_DOUBLE_EQ(link.seconds_per_byte, 8e-8);
  EXPECT_EQ(link.latency, 10_ms);
  EXPECT_EQ(link, link_of(100_mbit, 10_ms));
  for (const char* text : {"100mbit,10ms", "1gbit,1ms", "25gbit,50us", "64kbit,1.5s", "1.5mbit,0ms",
                           "100bit,20ns", "inf,3ms"}) {
    EXPECT_EQ(to_string(parse_link(text)), text);
  }
  EXPECT_EQ(parse_link("1 Gbit/s, 1 ms"), parse_link("1gbit,1ms"));
}

TEST(Link, TellsPeopleHowSureItIs) {
  Link link = parse_link("100mbit,10ms");
  EXPECT_EQ(describe(link), "100 Mbit/s, 10 ms");
  link.seconds_per_byte_uncertainty = 0.02 * link.seconds_per_byte;
  link.latency_uncertainty = 1_ms;
  EXPECT_EQ(describe(link), "100 Mbit/s +-2 %, 10 ms +-10 %");
  EXPECT_FALSE(too_fast_to_tell(link));
}

TEST(Link, MayBeTooFastToTell) {
  Link link = parse_link("289gbit,1ms");
  EXPECT_FALSE(too_fast_to_tell(link)) << "told, not measured";
  EXPECT_FALSE(too_fast_to_tell(parse_link("inf,1ms")));
  link.seconds_per_byte_uncertainty = 237 * link.seconds_per_byte;
  link.latency_uncertainty = 0.1 * link.latency;
  EXPECT_TRUE(too_fast_to_tell(link));
  EXPECT_EQ(describe(link), "too fast to tell, 1 ms +-10 %");
}

RC_GTEST_PROP(Link, TextKeepsBothValues, ()) {
  const double bits = std::exp2(*rc::gen::inRange(-300, 4000) / 100.0);
  const double seconds = std::exp2(*rc::gen::inRange(-4000, 500) / 100.0);
  const Link link = link_of(from_bits_per_second(bits), {seconds});
  const Link read = parse_link(to_string(link));
  RC_ASSERT(std::abs(read.seconds_per_byte / link.seconds_per_byte - 1) < 1e-5);
  RC_ASSERT(std::abs(read.latency / link.latency - 1) < 1e-5);
}

TEST(Link, RefusesHalfALinkAndUnitsThatMeanTwoThings) {
  for (const char* text :
       {"", "100mbit", "10ms", "100mbit;10ms", "100mbit,10ms,5ms", "100mbps,10ms", "100MB,10ms",
        "10ms,100mbit", "0mbit,1ms", "-1mbit,1ms", "1gbit,-1ms", "nanmbit,1ms", "1gbit,"}) {
    EXPECT_THROW((void)parse_link(text, "--link"), InputError) << text;
  }
  EXPECT_THROW((void)link_of({0}, {0}), ContractError);
}

TEST(World, HasOneLinkPerRank) {
  World world = uniform_world(3, parse_link("1gbit,1ms"));
  EXPECT_EQ(world.links.size(), 3U);
  EXPECT_TRUE(all_equal(world.links));
  world.links[2].latency = 5_ms;
  EXPECT_FALSE(all_equal(world.links));
  EXPECT_TRUE(all_equal({}));
  EXPECT_THROW((void)uniform_world(0, {}), ContractError);
}

}  // namespace
}  // namespace pliant::plan
