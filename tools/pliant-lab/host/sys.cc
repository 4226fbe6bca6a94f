// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/host/sys.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace pliant::lab {

void Fd::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  check(pipe2(ends.data(), O_CLOEXEC), "making a pipe");
  return {Fd(ends[0], "pipe"), Fd(ends[1], "pipe")};
}

std::pair<Fd, Fd> make_socket_pair() {
  std::array<int, 2> ends{};
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), "making a socket pair");
  return {Fd(ends[0], "socket pair"), Fd(ends[1], "socket pair")};
}

void write_all(int fd, std::string_view text, std::string_view attempt) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    text.remove_prefix(static_cast<std::size_t>(check(written, attempt)));
  }
}

void write_file(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC), "opening " + path);
  write_all(file.get(), text, "writing " + path);
}

void set_nonblocking(int fd) {
  const int flags = check(fcntl(fd, F_GETFL), "reading the flags of a descriptor");
  check(fcntl(fd, F_SETFL, flags | O_NONBLOCK), "setting the flags of a descriptor");
}

}  // namespace pliant::lab
