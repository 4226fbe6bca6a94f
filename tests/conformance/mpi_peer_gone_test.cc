// SPDX-License-Identifier: MIT
// Run under `mpirun --enable-recovery`: the last rank exits without a word; the others must get
// CommError by the deadline. Prints one line per survivor; the driver counts them, since mpirun's
// own exit status speaks of the rank that left.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "pliant/comm/mpi/session.h"
#include "tests/conformance/suite.h"
#include "tests/support/watchdog.h"

int main(int argc, char** argv) {
  const pliant::testing::Watchdog watchdog("mpi peer gone");
  const auto* session = new pliant::comm::mpi::Session(&argc, &argv);
  const auto world = session->world();
  const auto second = session->world();
  const int gone = world->size() - 1;
  if (world->rank() == gone) std::_Exit(0);
  int status = 0;
  try {
    pliant::conformance::a_peer_that_is_gone_is_an_error(*world, gone);
    pliant::conformance::an_all_reduce_without_a_peer_is_an_error(*second);
    std::printf("rank %d: peer gone, said so\n", world->rank());
  } catch (const std::exception& e) {
    std::printf("rank %d: FAILED: %s\n", world->rank(), e.what());
    status = 1;
  }
  std::fflush(stdout);
  std::_Exit(status);  // MPI_Finalize would wait for the rank that is gone
}
