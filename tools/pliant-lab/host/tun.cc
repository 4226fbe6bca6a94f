// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/host/tun.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

namespace pliant::lab {
namespace {

constexpr const char* kTunPath = "/dev/net/tun";
// Room for a burst while the switch is not running: 4000 packets of 1500 bytes are 48 ms at 1
// Gbit/s. The kernel drops what does not fit, out of our sight.
constexpr int kDeviceQueue = 4000;

std::string how_to_open(int error) {
  if (error == EACCES || error == EPERM) {
    return "The device is closed to this user. Open it with: sudo chmod 0666 /dev/net/tun (until "
           "the next boot; for good, a udev\n"
           "  rule KERNEL==\"tun\", MODE=\"0666\"), or run as root.";
  }
  return "The kernel has no TUN here. Load it with: sudo modprobe tun; in a container, pass "
         "--device /dev/net/tun.";
}

Fd open_device() {
  const int fd = open(kTunPath, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    throw MissingError(
        fmt::format("opening {}: {}\n  {}", kTunPath, std::strerror(error), how_to_open(error)));
  }
  return {fd, kTunPath};
}

ifreq request(const char* name) {
  ifreq r{};
  std::strncpy(r.ifr_name, name, IFNAMSIZ - 1);
  return r;
}

void set_address(int socket, unsigned long call, const char* text) {
  ifreq r = request(kDeviceName);
  auto* address = reinterpret_cast<sockaddr_in*>(&r.ifr_addr);
  address->sin_family = AF_INET;
  inet_pton(AF_INET, text, &address->sin_addr);
  check(ioctl(socket, call, &r), fmt::format("giving {} the address {}", kDeviceName, text));
}

void bring_up(int socket, const char* name) {
  ifreq r = request(name);
  r.ifr_flags = IFF_UP | IFF_RUNNING;
  check(ioctl(socket, SIOCSIFFLAGS, &r), fmt::format("bringing {} up", name));
}

void set_mtu(int socket, int mtu) {
  ifreq r = request(kDeviceName);
  r.ifr_mtu = mtu;
  check(ioctl(socket, SIOCSIFMTU, &r),
        fmt::format("setting the MTU of {} to {}", kDeviceName, mtu));
}

void set_queue_length(int socket) {
  ifreq r = request(kDeviceName);
  r.ifr_qlen = kDeviceQueue;
  ioctl(socket, SIOCSIFTXQLEN,
        &r);  // refused in a user namespace, where the kernel's own 500 packets must do
}

}  // namespace

Fd open_tun(const std::string& address, int mtu) {
  Fd device = open_device();
  ifreq r = request(kDeviceName);
  r.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  check(ioctl(device.get(), TUNSETIFF, &r), fmt::format("making the device {}", kDeviceName));
  check(ioctl(device.get(), TUNSETOFFLOAD, TUN_F_CSUM),
        fmt::format("turning checksums of {} off", kDeviceName));
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "opening a socket");
  bring_up(socket.get(), "lo");
  set_address(socket.get(), SIOCSIFADDR, address.c_str());
  set_address(socket.get(), SIOCSIFNETMASK, "255.255.255.0");
  set_mtu(socket.get(), mtu);
  set_queue_length(socket.get());
  bring_up(socket.get(), kDeviceName);
  return device;
}

std::string host_address(int host) { return fmt::format("10.77.0.{}", host + 1); }

int destination(const std::byte* packet, std::size_t size) {
  constexpr std::size_t kIpv4Header = 20;
  constexpr std::size_t kDestination = kTunHeader + 16;
  if (size < kTunHeader + kIpv4Header || std::to_integer<int>(packet[kTunHeader]) >> 4 != 4)
    return -1;
  const auto byte = [&](std::size_t i) { return std::to_integer<int>(packet[kDestination + i]); };
  return byte(0) == 10 && byte(1) == 77 && byte(2) == 0 ? byte(3) - 1 : -1;
}

}  // namespace pliant::lab
