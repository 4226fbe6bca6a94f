// SPDX-License-Identifier: MIT
#include "pliant/kernels/targets.h"

#include <gtest/gtest.h>

namespace pliant::kernels {
namespace {

TEST(Targets, APinnedTargetIsTheOnlyOneWhileItLives) {
  const auto all = targets();
  ASSERT_FALSE(all.empty());
  {
    const PinnedTarget pinned(all.back());
    ASSERT_EQ(targets().size(), 1U);
    EXPECT_EQ(targets().front().name, all.back().name);
  }
  EXPECT_EQ(targets().size(), all.size());
}

}  // namespace
}  // namespace pliant::kernels
