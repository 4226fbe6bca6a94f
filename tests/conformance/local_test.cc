// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "pliant/common/errors.h"
#include "tests/conformance/suite.h"
#include "tests/support/hidden_lengths.h"
#include "tests/support/run_ranks.h"

namespace pliant {
namespace {

class Local : public ::testing::TestWithParam<int> {};

TEST_P(Local, Conforms) {
  for (const conformance::Case& c : conformance::cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_NO_THROW(testing::run_ranks(std::string(c.name), GetParam(), c.run));
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, Local, ::testing::Values(1, 2, 3, 4, 7, 8));

TEST_P(Local, ConformsWhereLengthsAreHidden) {
  for (const conformance::Case& c : conformance::cases()) {
    if (c.needs_lengths) continue;
    SCOPED_TRACE(c.name);
    EXPECT_NO_THROW(
        testing::run_ranks(std::string(c.name), GetParam(), [&c](comm::Communicator& inner) {
          testing::HiddenLengths hidden(inner);
          c.run(hidden);
        }));
  }
}

// Not of one rank: nobody would be left to notice.
class LocalPeers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, LocalPeers, ::testing::Values(2, 3, 4, 7, 8));

TEST_P(LocalPeers, ThatHaveLeftAreAnError) {
  const int size = GetParam();
  testing::run_leaving_ranks("peer gone", size, [size](std::unique_ptr<comm::Communicator>& c) {
    if (c->rank() == size - 1) return c.reset();
    conformance::a_peer_that_is_gone_is_an_error(*c, size - 1);
  });
}

TEST(LocalGroup, ARankJoinsOnce) {
  const comm::local::Group group(2);
  const auto zero = group.join(0);
  EXPECT_THROW((void)group.join(0), ContractError);
  EXPECT_THROW((void)group.join(2), ContractError);
  EXPECT_THROW(comm::local::Group(-1), ContractError);
}

}  // namespace
}  // namespace pliant
