// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/launch/supervisor.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "pliant/common/exit_code.h"

namespace pliant::lab {
namespace {

// Time to clean up after SIGTERM. Two seconds under the five in which all others are promised to be
// gone.
constexpr Time kGrace = std::chrono::seconds(3);

Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  return set;
}

}  // namespace

void block_signals() {
  const sigset_t set = handled_signals();
  check(sigprocmask(SIG_BLOCK, &set, nullptr), "blocking signals");
}

Supervisor::Supervisor(Lab& lab, std::vector<Supervised> processes, Relay relay,
                       std::optional<Seconds> timeout)
    : lab_(lab), processes_(std::move(processes)), relay_(std::move(relay)) {
  const sigset_t set = handled_signals();
  signals_ = Fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), "opening a signalfd");
  if (timeout) time_limit_ = now() + to_time(*timeout);
}

int Supervisor::run() {
  while (!all_ended()) {
    wait_for_something();
    handle_signals();
    relay_.pump();
    reap();
    check_limits();
  }
  finish();
  return status_.value_or(kExitFine);
}

bool Supervisor::all_ended() const {
  return std::ranges::none_of(processes_, [](const Supervised& s) { return s.process.running(); });
}

int Supervisor::milliseconds_left() const {
  const auto limit = kill_at_ ? kill_at_ : time_limit_;
  if (!limit) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*limit - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> waiting = {{signals_.get(), POLLIN, 0}};
  relay_.add_to(waiting);
  poll(waiting.data(), waiting.size(), milliseconds_left());
}

// The first Ctrl-C goes to the hosts as it is, so that they can clean up; a second one does not
// wait for that.
void Supervisor::handle_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    if (kill_at_) lab_.kill();
    end_others(number, kExitSignalBase + number);
  }
}

void Supervisor::reap() {
  if (!status_ && lab_.switch_lost()) {
    fmt::print(stderr, "pliant-lab: the switch was lost, and with it every host\n");
    status_ = kExitFailed;
  }
  for (Supervised& s : processes_) {
    const auto status = s.process.poll();
    if (!status || *status == 0 || status_) continue;
    const char* others = all_ended() ? "" : "; ending the others";
    if (!s.name.empty())
      fmt::print(stderr, "pliant-lab: {} ended with status {}{}\n", s.name, *status, others);
    end_others(SIGTERM, *status);
  }
}

void Supervisor::check_limits() {
  if (time_limit_ && !kill_at_ && now() >= *time_limit_) {
    fmt::print(stderr, "pliant-lab: the time limit has passed; ending every host\n");
    end_others(SIGTERM, kExitTimeout);
  }
  if (kill_at_ && now() >= *kill_at_) lab_.kill();
}

// The first reason to end decides the status.
void Supervisor::end_others(int signal, int status) {
  if (!status_) status_ = status;
  if (kill_at_) return;
  kill_at_ = now() + kGrace;
  for (const Supervised& s : processes_) s.process.signal_group(signal);
}

// What hosts left running in the background ends with the switch; then their output is complete.
void Supervisor::finish() {
  lab_.end();
  if (lab_.switch_process().running()) lab_.switch_process().wait();
  relay_.drain();
}

}  // namespace pliant::lab
