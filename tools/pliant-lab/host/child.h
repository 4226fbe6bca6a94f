// SPDX-License-Identifier: MIT
// Child process that is killed and reaped when its owner is destroyed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

namespace pliant::lab {

// 0 to 255 as the process said, or 128 + n if signal n ended it.
[[nodiscard]] int exit_status(int wait_status);

class Child {
 public:
  // Forks; the child runs `body` and exits with its result. An exception in it is printed and gives
  // the status of its kind.
  explicit Child(const std::function<int()>& body);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool running() const { return pid_ > 0; }
  void signal(int number) const;  // no effect once it has ended
  void signal_group(
      int number) const;  // the child and what it started, if it leads a process group
  [[nodiscard]] std::optional<int> poll();  // its exit status once it has ended; reported once
  int wait();

 private:
  pid_t pid_ = -1;
};

}  // namespace pliant::lab
