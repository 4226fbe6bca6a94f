// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/launch/lab.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tools/pliant-lab/host/namespaces.h"
#include "tools/pliant-lab/host/tun.h"
#include "tools/pliant-lab/switch/control.h"
#include "tools/pliant-lab/switch/switch.h"

namespace pliant::lab {
namespace {

constexpr char kOwnProc = 'p';
constexpr char kOuterProc = 'o';

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 4096));
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The switch must run soon after a packet comes, however busy the hosts keep the processors. Root
// gets real-time service: it sleeps unless there is something to move, and the kernel keeps 5 % of
// every processor for the rest. Niceness would not do: with autogroups it counts only within one
// terminal. Anyone else gets the short slice (0.1 ms, the least there is), which needs no
// privilege. All of it may be refused; the truth log tells how late the switch was.
void ask_for_prompt_service() {
  prctl(PR_SET_TIMERSLACK, 1);
  const sched_param lowest{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_RR, &lowest) == 0) return;
  setpriority(PRIO_PROCESS, 0, -20);
  struct {
    std::uint32_t size = 48, policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 100'000, deadline = 0, period = 0;
  } attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

// Nor does it wait for processes that it inherits: ignoring SIGCHLD lets the kernel reap them.
void ignore_signals() {
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD})
    signal(number, SIG_IGN);
}

// Process numbers in the lab go on from the launcher's, so that two labs, or a lab and the machine,
// do not both have a process 5 that writes /tmp/job.5. Refused in some containers, where numbers
// then start at 2.
void continue_process_numbers(pid_t launcher) {
  const Fd file(open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC), "opening ns_last_pid");
  write_all(file.get(), std::to_string(launcher), "writing ns_last_pid");
}

bool own_proc(pid_t launcher) {
  if (!mount_own_proc()) return false;
  try {
    continue_process_numbers(launcher);
  } catch (const IoError&) {
    return true;
  }
  return true;
}

// A lab whose switch could not keep up must not pass for a slow network.
void warn_if_late(const Lateness& lateness) {
  if (lateness.over_1ms * 50 <= lateness.packets) return;
  fmt::print(stderr,
             "pliant-lab: the switch ran late: {} of {} packets came more than 1 ms after their "
             "time, the last by {}; the network was "
             "slower than set\n",
             lateness.over_1ms, lateness.packets, to_string(to_seconds(lateness.longest)));
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGTTOU, SIGTTIN})
    signal(number, SIG_DFL);
}

// A job has its own process group, so that Ctrl-C comes to the launcher alone, and no input.
void use_pipes(const Start& start) {
  setpgid(0, 0);
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC), "opening /dev/null");
  check(dup2(null.get(), STDIN_FILENO), "redirecting stdin");
  check(dup2(start.output, STDOUT_FILENO), "redirecting stdout");
  check(dup2(start.errors, STDERR_FILENO), "redirecting stderr");
}

// A prompt has the terminal, in the foreground.
void use_terminal() {
  setpgid(0, 0);
  signal(SIGTTOU, SIG_IGN);
  tcsetpgrp(STDIN_FILENO, getpgrp());
  signal(SIGTTOU, SIG_DFL);
}

}  // namespace

Lab::Lab(const NetworkPlan& plan, Fd truth) {
  raise_descriptor_limit();
  gain_privilege();
  make_hosts(plan);
  start_switch(plan, std::move(truth));
}

void Lab::make_hosts(const NetworkPlan& plan) {
  for (int host = 0; host < plan.hosts + plan.unshaped_hosts; ++host) {
    const Fd ns = new_network_namespace();
    namespaces_.emplace_back(dup3(ns.get(), kNamespaceFd + host, O_CLOEXEC),
                             "giving a namespace its descriptor");
    devices_.push_back(open_tun(host_address(host), plan.mtu));
  }
  check(unshare(CLONE_NEWNET),
        "making a network namespace");  // the launcher and the switch are in none of the hosts'
}

void Lab::start_switch(const NetworkPlan& plan, Fd truth) {
  new_process_namespace();
  auto [here, there] = make_socket_pair();
  const pid_t launcher = getpid();
  switch_.emplace_back([&, lifeline = &here, theirs = &there] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, kSwitchName);
    setpgid(0, 0);
    lifeline->close();
    ignore_signals();
    const char ready = own_proc(launcher) ? kOwnProc : kOuterProc;
    Fd control = listen_for_control();
    ask_for_prompt_service();
    write_all(theirs->get(), std::string_view(&ready, 1), "telling the launcher");
    Switch process(plan, Truth(std::move(truth)), std::move(devices_), std::move(control),
                   std::move(*theirs));
    process.run();
    warn_if_late(process.lateness());
    return 0;
  });
  devices_.clear();
  lifeline_ = std::move(here);
  there.close();
  char ready = 0;
  if (read(lifeline_.get(), &ready, 1) != 1) throw IoError("starting the switch: it ended at once");
  const std::string outer = std::to_string(switch_process().pid());
  mounts_ = Fd(open(fmt::format("/proc/{}/ns/mnt", outer).c_str(), O_RDONLY | O_CLOEXEC),
               "opening the lab's mount namespace");
  control_ = control_path(ready == kOwnProc ? "1" : outer);
  folder_ = private_folder(ready == kOwnProc ? "1" : outer);
}

// The switch's end of the lifeline closes as it exits, before the kernel kills what it held
// together.
bool Lab::switch_lost() const {
  pollfd end{lifeline_.get(), POLLIN, 0};
  return poll(&end, 1, 0) > 0;
}

Child Lab::start(const Start& start) const {
  return Child([&] { return host_body(start); });
}

int Lab::host_body(const Start& start) const {
  const std::string folder = std::filesystem::current_path();
  start.output < 0 ? use_terminal() : use_pipes(start);
  reset_signals();
  enter(mounts_, CLONE_NEWNS, "entering the lab's mount namespace");
  check(chdir(folder.c_str()), "returning to " + folder);
  enter(namespaces_[static_cast<std::size_t>(start.host)], CLONE_NEWNET,
        fmt::format("entering host {}", start.host));
  for (const auto& [name, value] : start.environment) setenv(name.c_str(), value.c_str(), 1);
  become(start.command);
}

void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw io_error_from_errno(fmt::format("running '{}'", command.front()));
}

}  // namespace pliant::lab
