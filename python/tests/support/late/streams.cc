// SPDX-License-Identifier: MIT
#include "python/tests/support/late/streams.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

namespace late {
namespace {

std::mutex delays_mutex;
Delays delays;
std::atomic<Waiter> dropped{Waiter::kNobody};

thread_local int device_now = 0;
thread_local std::array<Stream*, kDevices> streams_now{};

}  // namespace

void set_delays(const Delays& wanted) {
  const std::lock_guard lock(delays_mutex);
  delays = wanted;
}

void drop_waits(Waiter waiter) { dropped = waiter; }

Stream::Stream(int device, int number) : device_(device), number_(number) {}

void Stream::run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  ++added_;
  if (!started_) {
    started_ = true;
    std::thread([this] { work(); }).detach();  // streams exist until the process ends
  }
  changed_.notify_all();
}

void Stream::work() {
  set_current_device(device_);
  set_current(*this);
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    delay();
    std::exception_ptr failure;
    try {
      task();
    } catch (...) {
      failure = std::current_exception();
    }
    task = nullptr;  // whoever sees the task done may expect that it holds nothing any more
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    ++done_;
    changed_.notify_all();
  }
}

void Stream::delay() {
  Delays now;
  {
    const std::lock_guard lock(delays_mutex);
    now = delays;
  }
  if (seed_ != now.seed) {
    seed_ = now.seed;
    random_.seed(now.seed * 97 + static_cast<unsigned>(number_));
  }
  if (now.most == 0 || random_() % now.period != 0) return;
  const auto wait = now.least + static_cast<unsigned>(random_() % (now.most - now.least + 1));
  std::this_thread::sleep_for(std::chrono::microseconds(wait));
}

bool Stream::is_idle() {
  const std::lock_guard lock(mutex_);
  return done_ == added_;
}

void Stream::synchronize() {
  std::unique_lock lock(mutex_);
  const std::uint64_t goal = added_;
  changed_.wait(lock, [&] { return done_ >= goal; });
  if (const auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

Stream& stream(int device, int number) {
  static auto& all = *[] {
    auto* made = new std::array<std::array<std::unique_ptr<Stream>, kStreams>, kDevices>;
    for (int d = 0; d < kDevices; ++d) {
      for (int n = 0; n < kStreams; ++n)
        (*made)[static_cast<std::size_t>(d)][static_cast<std::size_t>(n)] =
            std::make_unique<Stream>(d, n);
    }
    return made;
  }();
  return *all.at(static_cast<std::size_t>(device)).at(static_cast<std::size_t>(number));
}

Stream& next_of_pool(int device) {
  static std::atomic<unsigned> taken{0};
  return stream(device, 1 + static_cast<int>(taken++ % (kStreams - 2)));
}

Stream& current(int device) {
  Stream* now = streams_now.at(static_cast<std::size_t>(device));
  return now == nullptr ? stream(device, 0) : *now;
}

void set_current(Stream& stream) {
  streams_now.at(static_cast<std::size_t>(stream.device())) = &stream;
}

int current_device() { return device_now; }
void set_current_device(int device) { device_now = device; }

void synchronize(int device) {
  for (int n = 0; n < kStreams; ++n) stream(device, n).synchronize();
}

void Event::Point::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return passed; });
}

void Event::record(Stream& stream) {
  point_ = std::make_shared<Point>();
  stream.run([point = point_] {
    const std::lock_guard lock(point->mutex);
    point->passed = true;
    point->changed.notify_all();
  });
}

void Event::block(Stream& stream) const {
  if (point_ == nullptr) return;
  const bool is_pool = stream.number() > 0 && stream.number() < kCollectives;
  if (dropped == Waiter::kPool && is_pool) return;
  if (dropped == Waiter::kDefaultStream && stream.number() == 0) return;
  stream.run([point = point_] { point->wait(); });
}

bool Event::has_passed() const {
  if (point_ == nullptr) return true;
  const std::lock_guard lock(point_->mutex);
  return point_->passed;
}

void Event::synchronize() const {
  if (point_ != nullptr && dropped != Waiter::kHost) point_->wait();
}

}  // namespace late
