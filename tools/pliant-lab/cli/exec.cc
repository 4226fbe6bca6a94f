// SPDX-License-Identifier: MIT
// pliant-lab exec: a command in a host of a lab that runs, from inside the lab or from another
// terminal.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tools/pliant-lab/cli/commands.h"
#include "tools/pliant-lab/host/child.h"
#include "tools/pliant-lab/host/namespaces.h"
#include "tools/pliant-lab/host/tun.h"
#include "tools/pliant-lab/launch/lab.h"
#include "tools/pliant-lab/switch/control.h"

namespace pliant::lab {
namespace {

// The switch holds every host's namespace at a known descriptor, next to the folder of the control
// socket.
Fd open_namespace(const std::string& control, int host) {
  const auto descriptors = std::filesystem::path(control).parent_path().parent_path();
  const auto path = descriptors / std::to_string(kNamespaceFd + host);
  return {open(path.c_str(), O_RDONLY | O_CLOEXEC),
          fmt::format("opening host {} of the lab", host)};
}

std::string control_variable() {
  const char* path = std::getenv(kControlVariable);
  if (path == nullptr) throw InputError("this command is for processes inside a lab");
  return path;
}

int parse_host(const std::string& text) {
  const bool number =
      !text.empty() && text.size() < 4 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!number) throw InputError(fmt::format("'{}' is not a host; hosts are numbered from 0", text));
  return std::stoi(text);
}

void become_in_host(const Fd& ns, int host, const std::string& control, const Command& command) {
  enter(ns, CLONE_NEWNET, fmt::format("entering host {}", host));
  setenv(kControlVariable, control.c_str(), 1);
  setenv("PLIANT_LAB_HOST", std::to_string(host).c_str(), 1);
  become(command);
}

bool same_user_namespace(pid_t lab) {
  struct stat here {};
  struct stat there {};
  check(stat("/proc/self/ns/user", &here), "looking at this process's user namespace");
  check(stat(fmt::format("/proc/{}/ns/user", lab).c_str(), &there),
        fmt::format("looking at the user namespace of lab {}", lab));
  return here.st_ino == there.st_ino;
}

// From outside: into the lab's user, mount and process namespaces, and then, as a child that is in
// all of them, into the host.
int exec_from_outside(pid_t lab, int host, const Command& command) {
  // The descriptor comes first: if another process gets the number of a lab that ends, enter()
  // fails.
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, lab, 0)),
                   fmt::format("opening lab {}", lab));
  require_own_lab(lab);
  const Fd ns = open_namespace(control_path(std::to_string(lab)), host);
  const std::string folder = std::filesystem::current_path();
  const int types = CLONE_NEWNS | CLONE_NEWPID | (same_user_namespace(lab) ? 0 : CLONE_NEWUSER);
  enter(process, types, fmt::format("entering lab {}", lab));
  check(chdir(folder.c_str()), "returning to " + folder);
  Child child([&]() -> int {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    become_in_host(ns, host, control_path("1"), command);
    return 0;
  });
  return child.wait();
}

pid_t only_lab() {
  const auto labs = running_labs();
  if (labs.size() == 1) return labs.front();
  if (labs.empty())
    throw InputError(
        "no lab of this user is running; start one with 'pliant-lab run' or 'pliant-lab shell'");
  throw InputError(fmt::format("{} labs are running; say which with --lab: {}", labs.size(),
                               fmt::join(labs, ", ")));
}

int host_of_address(const std::string& address) {
  for (int host = 0; host < kMostHosts; ++host) {
    if (host_address(host) == address) return host;
  }
  throw InputError(fmt::format("'{}' is not the address of a host", address));
}

// Gives the daemon of a host a folder of its own for session files. Hosts share the machine's name
// and file system: in one folder daemons would overwrite each other's files, and crash now and
// then. mpirun names the folder in the daemon's command, where it beats the environment.
void separate_session_files(std::string& script, const std::filesystem::path& shared, int host) {
  constexpr std::string_view kParameter = "orte_tmpdir_base";
  const std::size_t parameter = script.find(kParameter);
  if (parameter == std::string::npos) return;
  const std::size_t folder = script.find(shared.string(), parameter);
  if (folder == std::string::npos) return;
  const std::filesystem::path own = shared / fmt::format("host{}", host);
  std::filesystem::create_directory(own);
  script.replace(folder, shared.string().size(), own.string());
}

}  // namespace

int exec_in_host(const std::string& host, std::optional<int> lab, const Command& command) {
  require_command(command, "pliant-lab exec 1 -- ip address");
  const int number = parse_host(host);
  const bool inside = !lab && std::getenv(kControlVariable) != nullptr;
  if (!inside) return exec_from_outside(lab ? *lab : only_lab(), number, command);
  const std::string control = control_variable();
  become_in_host(open_namespace(control, number), number, control, command);
  return 0;
}

int mpi_agent(const Command& arguments) {
  if (arguments.size() < 2)
    throw InputError("mpi-agent: for Open MPI only: an address and a command");
  const std::string control = control_variable();
  const int host = host_of_address(arguments.front());
  std::string script = fmt::format("{}", fmt::join(arguments.begin() + 1, arguments.end(), " "));
  separate_session_files(script, std::filesystem::path(control).parent_path(), host);
  become_in_host(open_namespace(control, host), host, control, {"/bin/sh", "-c", script});
  return 0;
}

}  // namespace pliant::lab
