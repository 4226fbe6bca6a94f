// SPDX-License-Identifier: MIT
// MPI as a backend: point-to-point messages over any MPI communicator, and MPI's own collectives as
// the reference of benchmarks. This header does not need mpi.h; programs with an MPI_Comm of their
// own include communicator.h.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "pliant/comm/communicator.h"

namespace pliant::comm::mpi {

// MPI_Init and MPI_Finalize as an object; one per process. If MPI is up already (the user's program
// started it), it is used and left running.
//
// MPI_Finalize waits for every rank. After a CommError a rank may be gone, so the destructor then
// waits a few seconds for the others and leaves MPI as it is if they do not come: mpirun ends the
// job when the process exits. A program that started MPI itself calls abort_job() in that case.
class Session {
 public:
  Session(int* argc, char*** argv);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A communicator over all processes: a duplicate, so that no message mixes with the user's own.
  [[nodiscard]] std::unique_ptr<Communicator> world() const;

 private:
  bool started_ = false;
};

// MPI's own algorithms over all processes, for comparison.
void native_all_reduce(std::span<float> data);
void native_broadcast(std::span<float> data, int root);
void native_all_gather(std::span<const float> mine,
                       std::span<float> all);  // `mine` may be this rank's place in `all`
void native_reduce_scatter(std::span<const float> all, std::span<float> mine);

// Ends every process of the job.
[[noreturn]] void abort_job(int exit_code);

// Is MPI a simulation, with all ranks in one process and a clock of its own?
[[nodiscard]] bool simulated();

// Memory for messages whose content is of no interest. A simulation spares itself their copies;
// elsewhere it is memory like any other.
[[nodiscard]] Region unread_memory(std::size_t size);

[[nodiscard]] std::string library_version();  // one line

}  // namespace pliant::comm::mpi
