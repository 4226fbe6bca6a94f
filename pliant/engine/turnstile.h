// SPDX-License-Identifier: MIT
// Gate that lets numbered turns through one at a time, in the order of their numbers, whichever
// thread they come from.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace pliant::engine {

class Turnstile {
 public:
  // One number's passage. When it is destroyed the number has passed, also if it never entered, so
  // that a failure cannot block the numbers behind it.
  class Turn {
   public:
    Turn(Turnstile& turnstile, std::uint64_t number) : turnstile_(turnstile), number_(number) {}
    ~Turn() {
      if (state_ == State::kWaiting) enter();
      if (state_ == State::kInside) leave();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Blocks until all smaller numbers have passed.
    void enter() {
      std::unique_lock lock(turnstile_.mutex_);
      turnstile_.moved_.wait(lock, [this] { return turnstile_.next_ == number_; });
      state_ = State::kInside;
    }
    void leave() {
      {
        const std::lock_guard lock(turnstile_.mutex_);
        ++turnstile_.next_;
      }
      turnstile_.moved_.notify_all();
      state_ = State::kPassed;
    }

   private:
    enum class State : std::uint8_t { kWaiting, kInside, kPassed };
    Turnstile& turnstile_;
    const std::uint64_t number_;
    State state_ = State::kWaiting;
  };

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t next_ = 0;
};

}  // namespace pliant::engine
