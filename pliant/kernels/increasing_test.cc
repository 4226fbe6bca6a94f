// SPDX-License-Identifier: MIT
#include "pliant/kernels/increasing.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "pliant/kernels/targets.h"

namespace pliant::kernels {
namespace {

TEST(Increasing, OneStepBackOrStandingStillAnywhereIsSeenByEveryTarget) {
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    for (const std::size_t count : {0, 1, 2, 3, 8, 9, 16, 17, 18, 33, 100}) {
      std::vector<std::uint32_t> indices(count);
      std::iota(indices.begin(), indices.end(),
                UINT32_MAX - 50 - static_cast<std::uint32_t>(count / 2));
      std::iota(indices.begin() + count / 2, indices.end(),
                UINT32_MAX - 50);  // both sides of what a signed compare confuses
      if (count > 3) indices[0] = 5;
      EXPECT_TRUE(is_increasing(indices)) << target.name << ", " << count;
      EXPECT_TRUE(scalar::is_increasing(indices)) << count;
      for (std::size_t i = 1; i < count; ++i) {
        for (const std::uint32_t back : {0U, 1U}) {
          std::vector<std::uint32_t> wrong = indices;
          wrong[i] = wrong[i - 1] - back;
          EXPECT_FALSE(is_increasing(wrong)) << target.name << ", " << i << " of " << count;
          EXPECT_FALSE(scalar::is_increasing(wrong)) << i << " of " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pliant::kernels
