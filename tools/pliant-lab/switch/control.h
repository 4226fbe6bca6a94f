// SPDX-License-Identifier: MIT
// Control socket of the lab. It is in a file system in memory that is mounted nowhere and held by
// the switch alone, so it is reached through the switch's own descriptors:
// /proc/PID/fd/900/control. It needs no network namespace, the kernel lets only the user who
// started the lab (and root) look there, and it is gone when the switch is.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tools/pliant-lab/host/sys.h"

namespace pliant::lab {

// Fixed, so that anyone can find them; above what a lab of 200 hosts opens by itself.
inline constexpr int kControlFd = 900;
inline constexpr int kNamespaceFd = 600;  // + host: its network namespace, held by the switch
// The switch goes by this name in the process list.
inline constexpr const char* kSwitchName = "pliant-switch";
inline constexpr const char* kControlVariable = "PLIANT_LAB_CONTROL";

[[nodiscard]] std::string private_folder(const std::string& switch_pid);  // /proc/PID/fd/900
[[nodiscard]] std::string control_path(const std::string& switch_pid);

// For the switch: makes the folder at kControlFd and the listening socket in it.
[[nodiscard]] Fd listen_for_control();

// For everyone else. Where the lab is: the environment's (inside a host), or the only one running,
// or that of `lab`.
[[nodiscard]] std::string find_control(std::optional<pid_t> lab);
[[nodiscard]] std::vector<pid_t> running_labs();  // this user's, as processes of the switch
// InputError if the process belongs to another user. Any process can call itself a switch, and root
// must not enter the namespaces, or open the socket, that somebody else prepared for it.
void require_own_lab(pid_t lab);
// Sends one line and returns the answer.
[[nodiscard]] std::string ask(const std::string& path, const std::string& line);

}  // namespace pliant::lab
