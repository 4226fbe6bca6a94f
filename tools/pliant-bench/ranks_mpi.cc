// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <vector>

#include "pliant/comm/mpi/session.h"
#include "pliant/common/errors.h"
#include "pliant/common/exit_code.h"
#include "tools/pliant-bench/ranks.h"

namespace pliant::bench {
namespace {

using schedule::Collective;

Yardstick mpi_itself() {
  auto summed = std::make_shared<std::vector<float>>();
  return {"MPI", true, [summed](const Problem& problem, int rank, std::span<float> data) {
            const std::span<float> mine = own_part(problem, rank, data);
            switch (problem.collective) {
              case Collective::kAllReduce:
                return comm::mpi::native_all_reduce(data);
              case Collective::kBroadcast:
                return comm::mpi::native_broadcast(data, problem.root);
              case Collective::kAllGather:
                return comm::mpi::native_all_gather(mine, data);
              case Collective::kReduceScatter:
                break;
            }
            summed->resize(mine.size());
            comm::mpi::native_reduce_scatter(data, *summed);
            std::ranges::copy(*summed, mine.begin());
          }};
}

}  // namespace

bool threads_allowed() { return !comm::mpi::simulated(); }

bool started_by_mpi() {
  if (comm::mpi::simulated()) return true;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// Bad input is bad on every rank: the first one tells it, and all leave in good order.
int run_on_mpi(int* argc, char*** argv, const Body& body) {
  const comm::mpi::Session session(argc, argv);
  const auto communicator = session.world();
  try {
    return body(*communicator, {comm::mpi::library_version(), mpi_itself});
  } catch (const InputError& error) {
    return communicator->rank() == 0 ? tell(error) : kExitBadInput;
  } catch (const std::exception& error) {
    comm::mpi::abort_job(tell(error));
  }
}

}  // namespace pliant::bench
