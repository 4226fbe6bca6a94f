// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/host/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

namespace pliant::lab {
namespace {

MissingError no_namespaces(const IoError& error) {
  return MissingError(
      fmt::format("{}\n"
                  "  Namespaces are not allowed here for this user. Run as root, or allow them: "
                  "sysctl user.max_user_namespaces=10000,\n"
                  "  kernel.unprivileged_userns_clone=1 (where it exists), "
                  "kernel.apparmor_restrict_unprivileged_userns=0 (where it exists);\n"
                  "  in a container: --privileged, or --security-opt seccomp=unconfined with "
                  "--cap-add SYS_ADMIN.",
                  error.what()));
}

void become_root_of_user_namespace() {
  const std::string uid_map = fmt::format("0 {} 1", geteuid());
  const std::string gid_map = fmt::format("0 {} 1", getegid());
  check(unshare(CLONE_NEWUSER), "making a user namespace");
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", uid_map);
  write_file("/proc/self/gid_map", gid_map);
}

}  // namespace

void gain_privilege() {
  if (geteuid() == 0 && unshare(CLONE_NEWNET) == 0) return;
  try {
    become_root_of_user_namespace();
    check(unshare(CLONE_NEWNET), "making a network namespace");
  } catch (const IoError& error) {
    throw no_namespaces(error);
  }
}

Fd new_network_namespace() {
  check(unshare(CLONE_NEWNET), "making a network namespace");
  return {open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), "opening /proc/self/ns/net"};
}

void new_process_namespace() {
  try {
    check(unshare(CLONE_NEWPID), "making a process namespace");
  } catch (const IoError& error) {
    throw no_namespaces(error);
  }
}

bool mount_own_proc() {
  check(unshare(CLONE_NEWNS), "making a mount namespace");
  check(mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr),
        "cutting the mount namespace off");
  return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
}

Fd detached_tmpfs() {
  const Fd context(fsopen("tmpfs", FSOPEN_CLOEXEC), "opening a tmpfs");
  check(fsconfig(context.get(), FSCONFIG_SET_STRING, "mode", "0700", 0),
        "setting the mode of a tmpfs");
  check(fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), "creating a tmpfs");
  return {fsmount(context.get(), FSMOUNT_CLOEXEC, 0), "mounting a tmpfs"};
}

void enter(const Fd& ns, int type, const std::string& attempt) {
  check(setns(ns.get(), type), attempt);
}

}  // namespace pliant::lab
