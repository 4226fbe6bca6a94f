// SPDX-License-Identifier: MIT
// Namespaces without names: only processes and descriptors hold them, so that nothing is left when
// these are gone.
#pragma once

#include <string>

#include "tools/pliant-lab/host/sys.h"

namespace pliant::lab {

// Makes namespaces possible for this process: root as it is, anyone else through a user namespace
// in which they are root. Throws MissingError where the machine allows neither.
void gain_privilege();

// Moves this process to a new, empty network namespace and returns a descriptor that holds it.
[[nodiscard]] Fd new_network_namespace();

// The children started from now on share one new process namespace. The first is its process 1:
// when that ends, by whatever signal, the kernel kills all others.
void new_process_namespace();

// For process 1: its own view of mounts with a /proc that shows the new process namespace. False
// where the machine does not allow that (some containers); /proc then keeps showing the outer
// processes.
[[nodiscard]] bool mount_own_proc();

// A file system in memory that is attached nowhere: it is gone with its last descriptor.
[[nodiscard]] Fd detached_tmpfs();

void enter(const Fd& ns, int type, const std::string& attempt);

}  // namespace pliant::lab
