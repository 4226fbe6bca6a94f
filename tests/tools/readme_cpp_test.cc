// SPDX-License-Identifier: MIT
// Tests that the C++ of docs/cpp.md does what the page says.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "readme_blocks.inc"  // written from docs/cpp.md when the build is configured
#include "tests/support/run_ranks.h"

namespace pliant {
namespace {

TEST(Readme, TheExchangeLeavesTheAverageOfWhatWasLargest) {
  testing::run_ranks("README", 4, [](comm::Communicator& communicator) {
    std::vector<float> gradient(1000, 0.F);
    for (std::size_t i = 0; i < 10; ++i)
      gradient[i * 100] = static_cast<float>(communicator.rank() + 1);
    block0(communicator, gradient, 0);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(gradient[i], i % 100 == 0 ? 2.5F : 0.F, 0.05F) << i;
  });
}

}  // namespace
}  // namespace pliant
