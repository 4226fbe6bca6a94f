// SPDX-License-Identifier: MIT
#include "pliant/common/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace pliant {
namespace {

TEST(Suggest, FindsTheNearestWordOrListsAll) {
  const std::vector<std::string> known = {"ring", "halving-doubling", "tree"};
  EXPECT_EQ(nearest_word("rign", known), "ring");  // neighbours exchanged: one slip
  EXPECT_EQ(nearest_word("rang!", known),
            std::nullopt);  // two edits in five letters: too far to guess
  EXPECT_EQ(nearest_word("rin", known), "ring");
  EXPECT_EQ(nearest_word("halfing-doubling", known), "halving-doubling");
  EXPECT_EQ(suggestion("tre", known), " (did you mean 'tree'?)");
  EXPECT_EQ(suggestion("xyzzy", known), "; allowed: ring, halving-doubling, tree");
}

TEST(Suggest, NothingKnownNothingNear) { EXPECT_EQ(nearest_word("ring", {}), std::nullopt); }

}  // namespace
}  // namespace pliant
