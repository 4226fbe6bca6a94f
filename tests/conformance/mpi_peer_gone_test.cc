// SPDX-License-Identifier: MIT
// Run under `mpirun --enable-recovery`: the last rank exits without a word. The others must get
// CommError by the deadline, and then reach their end. Prints two lines per survivor; the driver
// counts them, since mpirun's own exit status speaks of the rank that left.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "pliant/comm/mpi/session.h"
#include "tests/conformance/suite.h"
#include "tests/support/watchdog.h"

namespace {

int survive(const pliant::comm::mpi::Session& session) {
  const auto world = session.world();
  const auto second = session.world();
  const int gone = world->size() - 1;
  if (world->rank() == gone) std::_Exit(0);
  try {
    pliant::conformance::a_peer_that_is_gone_is_an_error(*world, gone);
    pliant::conformance::an_all_reduce_without_a_peer_is_an_error(*second);
    std::printf("rank %d: peer gone, said so\n", world->rank());
    return 0;
  } catch (const std::exception& e) {
    std::printf("rank %d: FAILED: %s\n", world->rank(), e.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const pliant::testing::Watchdog watchdog("mpi peer gone");
  int status = 0;
  {
    const pliant::comm::mpi::Session session(&argc, &argv);
    status = survive(session);
    std::fflush(stdout);
  }
  std::printf("session ended\n");
  std::fflush(stdout);
  return status;
}
