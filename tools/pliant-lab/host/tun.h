// SPDX-License-Identifier: MIT
// A host's one network device: a TUN, whose other end the switch reads and writes.
#pragma once

#include <cstdint>
#include <string>

#include "tools/pliant-lab/host/sys.h"

namespace pliant::lab {

inline constexpr const char* kDeviceName = "lab0";

// Packets are read and written with this many bytes of header in front, which tell the kernel that
// checksums are still to be made. The switch hands them on unread, and neither kernel ever computes
// one.
inline constexpr std::size_t kTunHeader = 10;

// Makes lab0 in the network namespace of this process and brings it and lo up. Throws MissingError
// without TUN.
[[nodiscard]] Fd open_tun(const std::string& address, int mtu);

// 10.77.0.1 for host 0. Takes up to kMostHosts hosts; the one after the last belongs to the lab
// itself.
inline constexpr int kMostHosts = 200;
[[nodiscard]] std::string host_address(int host);
// The host a packet (with header) is for, or -1 if it is not IPv4 within the lab.
[[nodiscard]] int destination(const std::byte* packet, std::size_t size);

}  // namespace pliant::lab
