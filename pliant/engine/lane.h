// SPDX-License-Identifier: MIT
// Lane: a thread with its own communicator that runs jobs in the order in which they came. Without
// a thread, the caller runs each job at once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "pliant/comm/communicator.h"

namespace pliant::engine {

enum class Threading : std::uint8_t { kOwnThread, kCaller };

class Lane {
 public:
  using Job = std::function<void(comm::Communicator&)>;  // never throws

  Lane(std::unique_ptr<comm::Communicator> communicator, Threading threading);
  ~Lane();  // after all jobs
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void run(Job job);
  // Blocks until every job so far is done.
  void drain();

  [[nodiscard]] comm::Communicator& communicator() { return *communicator_; }

 private:
  void work();

  std::unique_ptr<comm::Communicator> communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace pliant::engine
