// SPDX-License-Identifier: MIT
// Start of the ranks, as threads of this process or as MPI processes.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "pliant/comm/communicator.h"
#include "tools/pliant-bench/problem.h"

namespace pliant::bench {

// Reference that Pliant's schedules are compared with: the backend's own collectives or, where it
// has none, one copy of the vector.
struct Yardstick {
  std::string name;
  bool solves = false;  // whether it does the collective, so that its result can be checked
  std::function<void(const Problem&, int rank, std::span<float>)> run;
};

struct Backend {
  std::string name;
  std::function<Yardstick()> yardstick;  // one for each rank
};

// The whole of one rank's work; returns its exit code.
using Body = std::function<int(comm::Communicator&, const Backend&)>;

// Runs the body as every rank and returns the exit code of the process. A failure is one line on
// stderr. (If several ranks lost a peer, MPI may print more than one.)
[[nodiscard]] int run_on_threads(int ranks, const Body& body);
[[nodiscard]] int run_on_mpi(int* argc, char*** argv, const Body& body);

// Without mpirun there is one rank, and no need of MPI to tell whether it is the first.
[[nodiscard]] bool started_by_mpi();
[[nodiscard]] bool threads_allowed();  // not where the ranks are simulated

// Prints the error and returns its exit code.
[[nodiscard]] int tell(const std::exception& error);

}  // namespace pliant::bench
