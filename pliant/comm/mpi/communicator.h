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

// Whether a communicator of this process was destroyed dead or with messages under way: then
// MPI_Finalize may wait for ever.
[[nodiscard]] bool left_unfinished();

}  // namespace pliant::comm::mpi
