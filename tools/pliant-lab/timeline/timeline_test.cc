// SPDX-License-Identifier: MIT
// What people write: links, timelines in TOML and CSV, lines to the control socket. Wrong input
// names the fix.
#include "tools/pliant-lab/timeline/timeline.h"

#include <gtest/gtest.h>

#include "pliant/common/errors.h"
#include "tools/pliant-lab/switch/commands.h"
#include "tools/pliant-lab/timeline/player.h"

namespace pliant::lab {
namespace {

using namespace std::chrono_literals;

Link link_of(const std::string& text) {
  Link link;
  apply(parse_link(text, "--link"), link);
  return link;
}

std::string complaint(const std::function<void()>& body) {
  try {
    body();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(LinkText, ReadsEveryKey) {
  const Link link = link_of(
      "100mbit, 10ms,jitter=2ms,loss=0.5%,reorder=1%,queue=100p,in.rate=20 "
      "Mbit/s,out.delay=5ms,blackhole=in,down");
  EXPECT_DOUBLE_EQ(bits_per_second(link.out.rate.limit), 100e6);
  EXPECT_DOUBLE_EQ(bits_per_second(link.in.rate.limit), 20e6);
  EXPECT_DOUBLE_EQ(link.out.travel.delay.value, 0.005);
  EXPECT_DOUBLE_EQ(link.in.travel.delay.value, 0.010);
  EXPECT_DOUBLE_EQ(link.in.travel.loss, 0.005);
  EXPECT_EQ(link.in.queue, (QueueLimit{QueueLimit::Unit::kPackets, 100}));
  EXPECT_TRUE(link.in.blackhole && !link.out.blackhole && link.down);
}

TEST(LinkText, WhatIsNotNamedStays) {
  Link link = link_of("100mbit,10ms,loss=1%");
  apply(parse_link("1mbit", "set"), link);
  EXPECT_EQ(to_string(link), "1 Mbit/s, 10 ms, loss 1 %");
}

TEST(LinkText, RefusesWithTheFix) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"100", "write a rate as 100mbit, a delay as 100ms"},
      {"100mbps", "mean two things"},
      {"10MB", "mean two things"},
      {"1%", "loss=1%"},
      {"los=1%", "did you mean 'loss'"},
      {"100mbit,,10ms", "empty part"},
      {"rate=5", "no unit"},
      {"delay=5", "no unit"},
      {"loss=101%", "more than 100 %"},
      {"queue=100", "100p"},
      {"0mbit", "below 1 kbit/s"},
      {"blackhole=sideways", "not a side"},
      {"state=dwn", "did you mean 'down'"},
      {"-5ms", "neither a rate"},
      {"", "empty part"},
      {"in.state=down", "takes no side"},
      {"trace=/does/not/exist", "no such file"},
  };
  for (const auto& [text, fix] : cases) {
    const std::string said =
        complaint([&, &text = text] { static_cast<void>(parse_link(text, "--link")); });
    EXPECT_NE(said.find(fix), std::string::npos) << "'" << text << "' gave: " << said;
  }
}

TEST(Toml, PhasesByTimeAndByName) {
  const Timeline t = parse_toml(
      "link='10mbit,5ms'\nhost.1='1mbit'\n[[phase]]\nat='2s'\nname='b'\nlink={rate='20mbit',in={"
      "loss='1%'}}\n[[phase]]\nat='1s'\nhost.0='"
      "down'\n",
      "t", "");
  ASSERT_EQ(t.phases.size(), 2u);
  EXPECT_EQ(t.phases[0].changes[0].host, 0);  // ordered by time
  EXPECT_EQ(t.phase("b").changes[0].change.in.loss, 0.01);
  EXPECT_EQ(t.start.size(), 2u);
}

TEST(Toml, RefusesWithLineAndFix) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"lnk='1mbit'", "t:1: unknown key 'lnk' (did you mean 'link'?)"},
      {"[[phase]]\nat=30\nlink='1mbit'", "t:2: at must be text with its unit"},
      {"[[phase]]\nat='30'\nlink='1mbit'", "no unit"},
      {"[[phase]]\natt='30s'", "did you mean 'at'"},
      {"link={rat='1mbit'}", "did you mean 'rate'"},
      {"link={rate=5}", "must be text with its unit"},
      {"[[phase]]\nlink='1mbit'", "needs at"},
      {"[[phase]]\nname='x'", "changes nothing"},
      {"host.x='1mbit'", "not a host"},
      {"x = [", "t:1:"},
      {"repeat='5s'", "repeat needs a phase"},
      {"[regions]\nnames=['a']\nhosts=['b']\ndelay=[['1ms']]", "unknown region 'b'"},
      {"[regions]\nnames=['a','b']\nhosts=['b']\ndelay=[['1ms']]",
       "1 delays in a row of 2 regions"},
  };
  for (const auto& [text, fix] : cases) {
    const std::string said =
        complaint([&, &text = text] { static_cast<void>(parse_toml(text, "t", "")); });
    EXPECT_NE(said.find(fix), std::string::npos) << text << " gave: " << said;
  }
}

TEST(Csv, EachLineIsAPhase) {
  const Timeline t = parse_csv("t,rate,delay,loss\n0s,10mbit,5ms,0%\n1s,,50ms,\n", "t.csv");
  ASSERT_EQ(t.phases.size(), 2u);
  EXPECT_FALSE(t.phases[1].changes[0].change.out.rate);
  EXPECT_EQ(t.phases[1].changes[0].change.out.delay, Seconds{0.05});
  EXPECT_NE(complaint([] {
              static_cast<void>(parse_csv("t,rte\n0s,1mbit\n", "x"));
            }).find("did you mean 'rate'"),
            std::string::npos);
  EXPECT_NE(
      complaint([] { static_cast<void>(parse_csv("t,rate\n0,1mbit\n", "x")); }).find("no unit"),
      std::string::npos);
}

TEST(Shipped, AllParseAndAreKnownByName) {
  std::vector<std::string> names;
  for (const Shipped& shipped : shipped_timelines()) {
    names.emplace_back(shipped.name);
    EXPECT_FALSE(load_timeline(shipped.name).description.empty());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"c1", "c2", "lte", "outage", "sawtooth", "step", "wan",
                                             "wifi"}));
}

TEST(Shipped, C1KeepsItsShapeWhenScaled) {
  const Timeline c1 = scaled(load_timeline("c1"), 0.01, 2);
  EXPECT_EQ(c1.phases[1].at, Seconds{24});
  EXPECT_DOUBLE_EQ(bits_per_second(c1.phases[1].changes[0].change.out.rate->limit), 10e6);
  EXPECT_EQ(c1.phases[2].changes[0].change.out.delay, Seconds{0.05});  // delays are not scaled
}

TEST(Player, GivesPhasesInTimeAndRepeats) {
  const Timeline t = parse_toml(
      "repeat='10s'\n[[phase]]\nat='1s'\nlink='1mbit'\n[[phase]]\nat='4s'\nlink='2mbit'\n[[phase]]"
      "\nname='x'\nlink='down'",
      "t", "");
  Player player(t, 100s, false);
  for (const Time at : {101s, 104s, 111s, 114s, 121s}) {
    EXPECT_EQ(player.next(), at);
    static_cast<void>(player.take());
  }
  EXPECT_EQ(Player(t, 0s, true).next(), kNever);
}

TEST(Regions, AShorterListRepeats) {
  const DelayMatrix delays = load_timeline("wan").delays(5);
  EXPECT_EQ(delays[4][1], delays[0][1]);
  EXPECT_EQ(delays[0][0], Seconds{0.001});
}

class CommandsTest : public testing::Test {
 protected:
  CommandsTest() { emulation.start(0s); }
  static NetworkPlan plan() {
    NetworkPlan plan;
    plan.hosts = 3;
    plan.timeline = load_timeline("step");
    return plan;
  }
  Emulation emulation{plan(), Truth(), [](Packet) {}};
};

TEST_F(CommandsTest, ChangeLinks) {
  EXPECT_EQ(execute(emulation, "set 2 1mbit,300ms", 1s), "ok");
  EXPECT_EQ(to_string(emulation.network().link(2)), "1 Mbit/s, 300 ms");
  EXPECT_EQ(execute(emulation, "down 1", 1s), "ok");
  EXPECT_TRUE(emulation.network().link(1).down);
  EXPECT_EQ(execute(emulation, "up all", 1s), "ok");
  EXPECT_FALSE(emulation.network().link(1).down);
  EXPECT_EQ(execute(emulation, "phase slow", 1s), "ok");
  EXPECT_EQ(to_string(emulation.network().link(0)), "10 Mbit/s, 10 ms");
}

TEST_F(CommandsTest, PhasesComeByTime) {
  emulation.advance(10s);
  EXPECT_EQ(to_string(emulation.network().link(0)), "10 Mbit/s, 10 ms");
  emulation.advance(25s);
  EXPECT_EQ(to_string(emulation.network().link(0)), "100 Mbit/s, 10 ms");
  EXPECT_EQ(emulation.next_event(), kNever);
}

TEST_F(CommandsTest, ErrorsNameTheFix) {
  EXPECT_NE(execute(emulation, "set 7 1mbit", 0s).find("hosts 0 to 2"), std::string::npos);
  EXPECT_NE(execute(emulation, "set 1 100", 0s).find("100mbit"), std::string::npos);
  EXPECT_NE(execute(emulation, "dwn 1", 0s).find("did you mean 'down'"), std::string::npos);
  EXPECT_NE(execute(emulation, "phase slo", 0s).find("did you mean 'slow'"), std::string::npos);
  EXPECT_TRUE(execute(emulation, "", 0s).starts_with("error: "));
}

TEST_F(CommandsTest, StatusIsOneLineOfJson) {
  const std::string answer = execute(emulation, "status", 2s);
  EXPECT_EQ(answer.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(answer);
  EXPECT_EQ(json["hosts"].size(), 3u);
  EXPECT_EQ(json["elapsed_s"], 2.0);
}

}  // namespace
}  // namespace pliant::lab
