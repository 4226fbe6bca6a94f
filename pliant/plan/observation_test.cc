// SPDX-License-Identifier: MIT
#include "pliant/plan/observation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pliant/common/errors.h"

namespace pliant::plan {
namespace {

constexpr std::string_view kLine =
    "step=7 epoch=2 plan=00f1e2d3c4b5a697 exchange=1 select=0.001 encode=0.0005 decode=0.00025 "
    "sent=224 entries=1000 kept=10 trimmed=3 "
    "energy_accumulated=2 energy_sent=1.5 updated_fraction=0.07 non_finite=1 "
    "union.gather:bruck:2:0:128,96:1.5:1.75 "
    "shared.bcast:chain:4:3::2:2.5";

TEST(Observation, ReadsAndPrintsOneLine) {
  const Observation o = parse_observation(kLine);
  EXPECT_EQ(to_string(o), kLine);
  EXPECT_EQ(o.plan_hash, 0x00f1e2d3c4b5a697U);
  EXPECT_TRUE(o.non_finite);
  ASSERT_EQ(o.timings.size(), 2U);
  EXPECT_EQ(o.timings[0].collective.blocks, (std::vector<Bytes>{{128}, {96}}));
  EXPECT_EQ(o.timings[1].collective.stage, Stage::kBroadcast);
  EXPECT_EQ(o.timings[1].collective.root, 3);
  EXPECT_EQ(o.timings[1].finished, Seconds{2.5});
  EXPECT_DOUBLE_EQ(gain(o), 0.75);
  EXPECT_EQ(gain(Observation{}), 1);
}

RC_GTEST_PROP(Observation, TextIsExact,
              (double a, double b, double c, std::int64_t n, std::uint64_t h, bool flag)) {
  const Collective collective{.scheme = *rc::gen::elementOf(kSchemes),
                              .stage = *rc::gen::elementOf(kStages),
                              .schedule = "ring",
                              .ranks = *rc::gen::arbitrary<int>(),
                              .root = 1,
                              .blocks = {{n}, {1}}};
  const Observation o{.step = n,
                      .epoch = h,
                      .plan_hash = h,
                      .timings = {{collective, {a}, {b}}, {collective, {b}, {c}}},
                      .select = {c},
                      .sent = {n},
                      .kept = n,
                      .energy_accumulated = a,
                      .updated_fraction = b,
                      .non_finite = flag};
  RC_ASSERT(parse_observation(to_string(o)) == o);
}

TEST(Observation, NamesTheWordThatIsWrong) {
  for (const char* text :
       {"step=x", "step=", "stop=1", "step=99999999999999999999", "plan=xyz", "union.gather",
        "onion.gather:ring:2:0:1:1:2", "union.gathr:ring:2:0:1:1:2",
        "union.gather:ring:2:0:1;2:1:2", "union.gather:ring:2:0:1:1", "union:ring:2:0:1:1:2",
        "sent=1.5", "select=1s"}) {
    try {
      (void)parse_observation(std::string("kept=1 ") + text, "replay.txt:3");
      FAIL() << text;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).rfind(std::string("replay.txt:3: '") + text + "': ", 0),
                0U)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace pliant::plan
