// SPDX-License-Identifier: MIT
// Group of threads as ranks: for tests, for tools without MPI, and for several workers in one
// process.
#pragma once

#include <memory>

#include "pliant/comm/communicator.h"

namespace pliant::comm::local {

class Mailboxes;

// A group of N ranks in this process. Each rank's communicator may be used from its own thread and
// outlive the group.
class Group {
 public:
  explicit Group(int size);

  // Call once per rank. Destroying a communicator is that rank's departure: peers that wait for it
  // get CommError.
  [[nodiscard]] std::unique_ptr<Communicator> join(int rank) const;

 private:
  std::shared_ptr<Mailboxes> mailboxes_;
};

}  // namespace pliant::comm::local
