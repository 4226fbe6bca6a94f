// SPDX-License-Identifier: MIT
#include "pliant/engine/lane.h"

namespace pliant::engine {

Lane::Lane(std::unique_ptr<comm::Communicator> communicator, Threading threading)
    : communicator_(std::move(communicator)) {
  if (threading == Threading::kOwnThread) thread_ = std::thread([this] { work(); });
}

Lane::~Lane() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Lane::run(Job job) {
  if (!thread_.joinable()) {
    job(*communicator_);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Lane::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !busy_; });
}

void Lane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      job(*communicator_);
    }  // whatever the job held is gone before it counts as done
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace pliant::engine
