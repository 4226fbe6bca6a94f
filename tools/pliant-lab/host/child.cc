// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/host/child.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "tools/pliant-lab/host/report.h"
#include "tools/pliant-lab/host/sys.h"

namespace pliant::lab {

int exit_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

Child::Child(const std::function<int()>& body) : pid_(check(fork(), "starting a process")) {
  if (pid_ == 0) _exit(report_errors(body));
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Child::~Child() {
  if (!running()) return;
  signal(SIGKILL);
  wait();
}

void Child::signal(int number) const {
  if (running()) kill(pid_, number);
}

void Child::signal_group(int number) const {
  if (running()) kill(-pid_, number);
}

std::optional<int> Child::poll() {
  int status = 0;
  if (!running() || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  return exit_status(status);
}

int Child::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return exit_status(status);
}

}  // namespace pliant::lab
