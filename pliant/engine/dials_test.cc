// SPDX-License-Identifier: MIT
#include "pliant/engine/dials.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "pliant/common/errors.h"
#include "pliant/engine/opening.h"

namespace pliant::engine {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string refusal(std::string_view name, double value) {
  Options options;
  try {
    turn_dial(options, name, value);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Dials, EachTurnsItsNumber) {
  Options options;
  turn_dial(options, "p", 0.3);
  EXPECT_EQ(options.efficiency.p_updates, 0.3);
  EXPECT_EQ(options.efficiency.p_gradients, 0.3);
  EXPECT_EQ(options.efficiency.p_updates_adam, 0.3);
  EXPECT_EQ(options.efficiency.p_gradients_adam, 0.3);
  turn_dial(options, "p_gradients", 0.5);
  EXPECT_EQ(options.efficiency.p_gradients, 0.5);
  turn_dial(options, "most_every", 16);
  EXPECT_EQ(options.control.guards.most_every, 16);
  turn_dial(options, "warm_up_steps", 0);
  EXPECT_EQ(options.control.warm_up_steps, 0);
}

// A value within the range that is not the one of `options`.
double other_value(const Dial& dial, const Options& options) {
  return dial.value(options) == fmt::format("{}", dial.least) ? dial.least + 1 : dial.least;
}

TEST(Dials, EveryOneShowsWhatItSets) {
  std::set<std::string> names;
  ASSERT_FALSE(dials().empty());
  for (const Dial& dial : dials()) {
    Options options;
    const std::string before = dial.value(options);
    turn_dial(options, dial.name, other_value(dial, options));
    EXPECT_NE(dial.value(options), before) << dial.name;
    EXPECT_TRUE(names.insert(dial.name).second) << dial.name << " is there twice";
    EXPECT_TRUE(dial.sentence.ends_with(".")) << dial.name;
  }
}

TEST(Dials, RefusalsNameTheDial) {
  EXPECT_THAT(refusal("warm_up_step", 3), HasSubstr("did you mean 'warm_up_steps'"));
  EXPECT_THAT(refusal("p", 1.5), HasSubstr("dial p=1.5: allowed is 0 to 1"));
  EXPECT_THAT(refusal("better", 0.5), HasSubstr("allowed is 1 or more"));
  EXPECT_THAT(refusal("most_every", 2.5), HasSubstr("whole numbers"));
  EXPECT_THAT(refusal("p", std::nan("")), HasSubstr("dial p=nan"));
}

// Names that only experts need are accepted, but not offered.
TEST(Dials, SuggestOnlyThoseForUsers) {
  EXPECT_EQ(refusal("dwell_steps", 5), "");
  EXPECT_THAT(refusal("dwell_step", 5), Not(HasSubstr("dwell_steps")));
  EXPECT_THAT(refusal("nothing like it", 5), HasSubstr("lengthen, tolerance"));
}

TEST(Dials, AreComparedBetweenRanksByName) {
  for (const Dial& dial : dials()) {
    Options options;
    const auto before = facts_of(options);
    turn_dial(options, dial.name, other_value(dial, options));
    const auto after = facts_of(options);
    const auto [one, other] = std::ranges::mismatch(before, after);
    ASSERT_NE(one, before.end()) << dial.name;
    const bool part_of_p = dial.name.starts_with("p_");
    EXPECT_EQ(one->first, "dial " + (part_of_p ? "p" : dial.name));
  }
}

// docs/control.md lists exactly the dials for users, with their sentence, range and start.
TEST(Dials, AreDocumented) {
  std::ifstream in(PLIANT_CONTROL_DOC);
  std::ostringstream page;
  page << in.rdbuf();
  ASSERT_FALSE(page.str().empty());
  std::string table = "| dial | what it sets | range | start |\n|---|---|---|---|\n";
  for (const Dial& dial : dials()) {
    if (dial.who == Dial::For::kUsers)
      table += fmt::format("| `{}` | {} | {} | {} |\n", dial.name, dial.sentence, dial.range(),
                           dial.value(Options{}));
  }
  EXPECT_THAT(page.str(), HasSubstr(table + "\n")) << "the table should be\n" << table;
}

TEST(Dials, Goals) {
  EXPECT_EQ(parse_goal("steps"), control::Goal::kSteps);
  EXPECT_EQ(parse_goal("time"), control::Goal::kTime);
  EXPECT_THROW((void)parse_goal("step"), InputError);
}

TEST(Dials, Policies) {
  EXPECT_EQ(parse_policy("knee"), control::Policy::kKnee);
  EXPECT_THROW((void)parse_policy("kne"), InputError);
}

}  // namespace
}  // namespace pliant::engine
