// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/agree.h"

#include <algorithm>

namespace pliant::bench {
namespace {

constexpr comm::Tag kAgreeTag = comm::kLargestTag;  // schedules run with tag 0

}  // namespace

// Dissemination: in round k everyone tells the rank 2^k further on the largest value it has heard
// of. A value may arrive twice, which does no harm to a maximum. If all enter at the same time all
// leave at the same time, simulated time included.
double max_over_ranks(comm::Communicator& communicator, double mine,
                      const std::optional<Seconds>& deadline) {
  const int rank = communicator.rank();
  const int size = communicator.size();
  const comm::Patience patience{.deadline = deadline, .place = {}};
  for (int skip = 1; skip < size; skip *= 2) {
    const Buffer<double> incoming(1);
    const Buffer<double> outgoing(1);
    outgoing[0] = mine;
    const auto receive =
        communicator.receive((rank + size - skip) % size, kAgreeTag, comm::region_of(incoming));
    const auto send = communicator.send((rank + skip) % size, kAgreeTag, comm::region_of(outgoing));
    communicator.wait(send, patience);
    communicator.wait(receive, patience);
    mine = std::max(mine, incoming[0]);
  }
  return mine;
}

}  // namespace pliant::bench
