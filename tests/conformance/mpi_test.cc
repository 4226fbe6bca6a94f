// SPDX-License-Identifier: MIT
// Run under mpirun: every process is one rank and runs all cases in the same order.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "pliant/comm/mpi/session.h"
#include "tests/conformance/suite.h"
#include "tests/support/watchdog.h"

namespace pliant {
namespace {

std::optional<comm::mpi::Session> session;

TEST(Mpi, Conforms) {
  for (const conformance::Case& c : conformance::cases()) {
    SCOPED_TRACE(c.name);
    const testing::Watchdog watchdog{std::string(c.name)};
    const auto world = session->world();
    EXPECT_NO_THROW(c.run(*world));
  }
}

}  // namespace
}  // namespace pliant

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  pliant::session.emplace(&argc, &argv);
  const int result = RUN_ALL_TESTS();
  pliant::session.reset();
  return result;
}
