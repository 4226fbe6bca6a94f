// SPDX-License-Identifier: MIT
// For builds without MPI.
#include "pliant/common/errors.h"
#include "tools/pliant-bench/ranks.h"

namespace pliant::bench {

bool started_by_mpi() { return false; }
bool threads_allowed() { return true; }

int run_on_mpi(int*, char***, const Body&) {
  return tell(
      InputError("--local: this build has no MPI, so give the number of threads to run as ranks, "
                 "as in --local 4"));
}

}  // namespace pliant::bench
