// SPDX-License-Identifier: MIT
#include "pliant/engine/dials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pliant/common/errors.h"

namespace pliant::engine {
namespace {

using testing::HasSubstr;

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

TEST(Dials, EveryNameIsTaken) {
  ASSERT_FALSE(dial_names().empty());
  for (const std::string& name : dial_names()) {
    Options options;
    EXPECT_NO_THROW(turn_dial(options, name, 1)) << name;
  }
}

TEST(Dials, RefusalsNameTheDial) {
  EXPECT_THAT(refusal("warm_up_step", 3), HasSubstr("did you mean 'warm_up_steps'"));
  EXPECT_THAT(refusal("p", 1.5), HasSubstr("dial p=1.5: it goes from 0 to 1"));
  EXPECT_THAT(refusal("most_every", 2.5), HasSubstr("whole numbers"));
  EXPECT_THAT(refusal("p", std::nan("")), HasSubstr("dial p=nan"));
}

TEST(Dials, Policies) {
  EXPECT_EQ(parse_policy("knee"), control::Policy::kKnee);
  EXPECT_THROW((void)parse_policy("kne"), InputError);
}

}  // namespace
}  // namespace pliant::engine
