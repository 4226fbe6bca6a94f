// SPDX-License-Identifier: MIT
// Streams and events of the late device. A stream is a thread that runs its tasks in order, each
// after a random delay, so that a reader that does not wait finds what was there before.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

namespace late {

inline constexpr int kDevices = 2;
inline constexpr int kStreams = 6;  // of one device: the default one, a pool, one for collectives
inline constexpr int kCollectives = kStreams - 1;

// Delays before tasks, in microseconds: one in `period` tasks waits for least to most.
struct Delays {
  unsigned seed = 1;
  unsigned least = 0;
  unsigned most = 400;
  unsigned period = 3;
};
void set_delays(const Delays& delays);

class Stream {
 public:
  Stream(int device, int number);  // its thread starts with its first task

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] int number() const { return number_; }
  void run(std::function<void()> task);
  [[nodiscard]] bool is_idle();
  // Waits for all tasks so far. Throws what a task has thrown, once.
  void synchronize();

 private:
  [[noreturn]] void work();
  void delay();

  int device_;
  int number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t added_ = 0;
  std::uint64_t done_ = 0;
  bool started_ = false;
  std::exception_ptr failure_;
  std::mt19937 random_;
  unsigned seed_ = 0;
};

[[nodiscard]] Stream& stream(int device, int number);
[[nodiscard]] Stream& next_of_pool(int device);
[[nodiscard]] Stream& current(int device);  // of this thread
void set_current(Stream& stream);
[[nodiscard]] int current_device();  // of this thread
void set_current_device(int device);
void synchronize(int device);

// A point in the work of a stream. Recording again moves it.
class Event {
 public:
  void record(Stream& stream);
  // Later work of `stream` waits for the point that was recorded last.
  void block(Stream& stream) const;
  [[nodiscard]] bool has_passed() const;
  void synchronize() const;

 private:
  struct Point {
    std::mutex mutex;
    std::condition_variable changed;
    bool passed = false;
    void wait();
  };
  std::shared_ptr<Point> point_;
};

// For tests of tests: nobody waits for events any more where it is dropped.
enum class Waiter { kNobody, kPool, kDefaultStream, kHost };
void drop_waits(Waiter waiter);

}  // namespace late
