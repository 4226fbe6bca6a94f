// SPDX-License-Identifier: MIT
// A hang becomes a message: if the watchdog outlives its time, it says what was going on and ends
// the process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace pliant::testing {

class Watchdog {
 public:
  explicit Watchdog(std::string what, std::chrono::seconds limit = std::chrono::seconds(240))
      : thread_([this, what = std::move(what), limit] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, limit, [this] { return disarmed_; })) return;
          std::fprintf(stderr, "watchdog: '%s' has not ended after %lld s: it hangs\n",
                       what.c_str(), static_cast<long long>(limit.count()));
          std::abort();
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      disarmed_ = true;
    }
    over_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool disarmed_ = false;
  std::thread thread_;
};

}  // namespace pliant::testing
