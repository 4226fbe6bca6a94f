// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/switch/control.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/pliant-lab/host/namespaces.h"

namespace pliant::lab {
namespace {

// A command is answered at once; a switch that takes longer than this is gone or stopped.
constexpr timeval kPatience = {10, 0};

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw InputError(fmt::format("the control socket's path is too long: '{}'", path));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

Fd unix_socket() { return {socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "opening a socket"}; }

struct Owner {
  uid_t real;
  uid_t effective;
};

// Both users of a process, or nothing if it has ended. The two differ if it is a setuid program,
// which anybody can start under any name.
std::optional<Owner> owner_of(const std::filesystem::path& process) {
  std::ifstream file(process / "status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Uid:")) continue;
    std::istringstream fields(line.substr(4));
    Owner owner{};
    if (fields >> owner.real >> owner.effective) return owner;
  }
  return std::nullopt;
}

bool is_own(const Owner& owner) { return owner.real == geteuid() && owner.effective == geteuid(); }

bool is_switch(const std::filesystem::path& process) {
  std::ifstream file(process / "comm");
  std::string name;
  std::getline(file, name);
  const auto owner = owner_of(process);
  struct stat found {};
  return name == kSwitchName && owner && is_own(*owner) &&
         stat(control_path(process.filename()).c_str(), &found) == 0;
}

bool is_number(const std::string& text) {
  return text.find_first_not_of("0123456789") == std::string::npos;
}

std::string read_line(int fd, const std::string& path) {
  std::string line;
  char buffer[4096];
  while (!line.ends_with('\n')) {
    const ssize_t n =
        check(read(fd, buffer, sizeof buffer), fmt::format("waiting for an answer from {}", path));
    if (n == 0)
      throw IoError(fmt::format("waiting for an answer from {}: the lab has ended", path));
    line.append(buffer, static_cast<std::size_t>(n));
  }
  line.pop_back();
  return line;
}

}  // namespace

std::string private_folder(const std::string& switch_pid) {
  return fmt::format("/proc/{}/fd/{}", switch_pid, kControlFd);
}

std::string control_path(const std::string& switch_pid) {
  return private_folder(switch_pid) + "/control";
}

Fd listen_for_control() {
  const Fd folder = detached_tmpfs();
  check(dup3(folder.get(), kControlFd, O_CLOEXEC), "giving the control folder its descriptor");
  const sockaddr_un address = address_of(control_path("self"));
  Fd socket = unix_socket();
  check(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
        "making the control socket");
  check(listen(socket.get(), SOMAXCONN), "listening at the control socket");
  set_nonblocking(socket.get());
  return socket;
}

std::vector<pid_t> running_labs() {
  std::vector<pid_t> labs;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (is_number(name) && is_switch(entry.path())) labs.push_back(std::stoi(name));
  }
  std::ranges::sort(labs);
  return labs;
}

void require_own_lab(pid_t lab) {
  const auto owner = owner_of(fmt::format("/proc/{}", lab));
  if (!owner) throw InputError(fmt::format("no lab {} is running", lab));
  if (!is_own(*owner))
    throw InputError(
        fmt::format("lab {} belongs to user {}, and this is user {}; run the command as that user",
                    lab, owner->real, geteuid()));
}

std::string find_control(std::optional<pid_t> lab) {
  if (lab) {
    require_own_lab(*lab);
    return control_path(std::to_string(*lab));
  }
  if (const char* path = std::getenv(kControlVariable)) return path;
  const auto labs = running_labs();
  if (labs.empty())
    throw InputError(
        "no lab of this user is running; start one with 'pliant-lab run' or 'pliant-lab shell'");
  if (labs.size() > 1)
    throw InputError(fmt::format("{} labs are running; say which with --lab: {}", labs.size(),
                                 fmt::join(labs, ", ")));
  return control_path(std::to_string(labs.front()));
}

std::string ask(const std::string& path, const std::string& line) {
  const sockaddr_un address = address_of(path);
  const Fd socket = unix_socket();
  check(setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience),
        "setting a timeout");
  check(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
        fmt::format("connecting to the lab at {}", path));
  write_all(socket.get(), line + "\n", fmt::format("writing to {}", path));
  return read_line(socket.get(), path);
}

}  // namespace pliant::lab
