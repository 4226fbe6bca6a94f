// SPDX-License-Identifier: MIT
// Runs a function as N ranks, one thread each, under a watchdog. The first rank's exception reaches
// the caller. A rank that throws is gone for the others at once; one that returns stays until all
// have.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/comm/local/group.h"
#include "tests/support/watchdog.h"

namespace pliant::testing {

using RankBody = std::function<void(std::unique_ptr<comm::Communicator>&)>;

// Each rank joins by `join`, on its own thread. body may reset its communicator: that rank has
// left.
inline void run_joining_ranks(const std::string& what, int size,
                              const std::function<std::unique_ptr<comm::Communicator>(int)>& join,
                              const RankBody& body) {
  const Watchdog watchdog(what + " on " + std::to_string(size) + " ranks");
  std::vector<std::unique_ptr<comm::Communicator>> communicators(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto& mine = communicators[static_cast<std::size_t>(rank)];
        try {
          mine = join(rank);
          body(mine);
        } catch (...) {
          failures[static_cast<std::size_t>(rank)] = std::current_exception();
          mine.reset();
        }
      });
    }
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

// For tests in which a rank leaves.
inline void run_leaving_ranks(const std::string& what, int size, const RankBody& body) {
  const comm::local::Group group(size);
  std::vector<std::unique_ptr<comm::Communicator>> joined;  // all, before anybody may leave
  joined.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) joined.push_back(group.join(rank));
  run_joining_ranks(
      what, size, [&joined](int rank) { return std::move(joined[static_cast<std::size_t>(rank)]); },
      body);
}

inline void run_ranks(const std::string& what, int size,
                      const std::function<void(comm::Communicator&)>& body) {
  run_leaving_ranks(what, size,
                    [&body](std::unique_ptr<comm::Communicator>& mine) { body(*mine); });
}

}  // namespace pliant::testing
