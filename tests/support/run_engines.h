// SPDX-License-Identifier: MIT
// Runs a function as N ranks, one thread each, with the communicators that an engine of so many
// lanes wants. The first rank's exception reaches the caller; a rank that throws is gone for the
// others at once.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pliant/comm/local/group.h"
#include "pliant/engine/engine.h"
#include "tests/support/watchdog.h"

namespace pliant::testing {

using EngineBody = std::function<void(int rank, engine::Communicators communicators)>;

// One exception per rank; null where it returned.
inline std::vector<std::exception_ptr> run_failing_engines(const std::string& what, int ranks,
                                                           int lanes, const EngineBody& body) {
  const Watchdog watchdog(what + " on " + std::to_string(ranks) + " ranks with " +
                          std::to_string(lanes) + " lanes");
  std::vector<comm::local::Group> groups(static_cast<std::size_t>(lanes) + 1,
                                         comm::local::Group(1));
  for (auto& group : groups) group = comm::local::Group(ranks);
  std::vector<engine::Communicators> communicators(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    auto& mine = communicators[static_cast<std::size_t>(rank)];
    mine.control = groups.back().join(rank);
    for (int lane = 0; lane < lanes; ++lane)
      mine.lanes.push_back(groups[static_cast<std::size_t>(lane)].join(rank));
  }
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, std::move(communicators[static_cast<std::size_t>(rank)]));
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  threads.clear();
  return failures;
}

inline void run_engines(const std::string& what, int ranks, int lanes, const EngineBody& body) {
  for (const auto& failure : run_failing_engines(what, ranks, lanes, body)) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace pliant::testing
