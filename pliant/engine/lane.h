// SPDX-License-Identifier: MIT
// A thread that runs jobs in the order they came; or, without a thread, the caller who runs each at
// once.
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

// Lets numbered visitors through one at a time, in the order of their numbers, whichever thread
// they come from.
class Turnstile {
 public:
  void enter(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return next_ == number; });
  }
  void leave() {
    {
      const std::lock_guard lock(mutex_);
      ++next_;
    }
    moved_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t next_ = 0;
};

}  // namespace pliant::engine
