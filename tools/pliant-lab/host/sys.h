// SPDX-License-Identifier: MIT
// System calls with error checks: every one goes through check(), which says what was attempted.
// Descriptors close themselves.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "pliant/common/errors.h"

namespace pliant::lab {

// Something this machine lacks (TUN, namespaces); the text says what and how to get it. Exit
// status 6.
class MissingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The result of a system call, or IoError "attempt: reason" if it is -1.
template <typename T>
T check(T result, std::string_view attempt) {
  if (result == static_cast<T>(-1)) throw io_error_from_errno(std::string(attempt));
  return result;
}

class Fd {
 public:
  Fd() = default;
  Fd(int fd, std::string_view attempt) : fd_(check(fd, attempt)) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { close(); }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};
[[nodiscard]] Pipe make_pipe();
[[nodiscard]] std::pair<Fd, Fd> make_socket_pair();

void write_all(int fd, std::string_view text, std::string_view attempt);
void write_file(const std::string& path, std::string_view text);
void set_nonblocking(int fd);

}  // namespace pliant::lab
