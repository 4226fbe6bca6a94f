// SPDX-License-Identifier: MIT
// Communicator over an MPI communicator of the caller.
#pragma once

#include <mpi.h>

#include <memory>

#include "pliant/comm/communicator.h"

namespace pliant::comm::mpi {

// A Communicator over a duplicate of `parent`. Collective over `parent`. MPI must be up, and stay
// up while it lives. Errors become CommError, not aborts. A deadline is kept by polling, with
// pauses that grow to half a millisecond; without a deadline, or under simulation, MPI waits
// itself.
[[nodiscard]] std::unique_ptr<Communicator> over(MPI_Comm parent);

}  // namespace pliant::comm::mpi
