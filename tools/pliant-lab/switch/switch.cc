// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/switch/switch.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <array>

#include "tools/pliant-lab/host/tun.h"
#include "tools/pliant-lab/switch/commands.h"

namespace pliant::lab {
namespace {

// Events within this time are handled together. At 1 Gbit/s and 1500 bytes a packet is due every 12
// us; waking for each would cost more than moving it. It makes a packet late by at most this much,
// and never changes a rate.
constexpr Time kGrain = std::chrono::microseconds(50);

// Packets read from one host before the others get their turn.
constexpr int kBatch = 64;

// A line to the control socket is short; more than this without an end is not for us.
constexpr std::size_t kLongestLine = 65536;

enum Tag : std::uint64_t {
  kTimer,
  kControl,
  kLifeline,
  kDevice = std::uint64_t{1} << 32,
  kClient = std::uint64_t{2} << 32
};

Time monotonic() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::chrono::seconds(t.tv_sec) + Time(t.tv_nsec);
}

}  // namespace

Switch::Switch(NetworkPlan plan, Truth truth, std::vector<Fd> devices, Fd control, Fd lifeline)
    : devices_(std::move(devices)),
      control_(std::move(control)),
      lifeline_(std::move(lifeline)),
      epoll_(epoll_create1(EPOLL_CLOEXEC), "making an epoll"),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "making a timer"),
      pool_(static_cast<std::size_t>(plan.mtu) + kTunHeader),
      emulation_(std::move(plan), std::move(truth),
                 [this](Packet packet) { deliver(std::move(packet)); }) {
  emulation_.network().on_drop([this](PacketBuffer buffer) { pool_.give_back(std::move(buffer)); });
  add(timer_.get(), kTimer, EPOLLIN);
  add(control_.get(), kControl, EPOLLIN);
  add(lifeline_.get(), kLifeline, EPOLLIN);
  for (std::size_t host = 0; host < devices_.size(); ++host)
    add(devices_[host].get(), kDevice | host, EPOLLIN);
}

void Switch::add(int fd, std::uint64_t tag, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "watching a descriptor");
}

void Switch::run() {
  std::array<epoll_event, 64> events{};
  now_ = monotonic();
  emulation_.start(now_);
  while (!done_) {
    arm_timer(now_);
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno == EINTR) continue;
    check(count, "waiting for packets");
    now_ = monotonic();
    emulation_.advance(now_);
    for (int i = 0; i < count; ++i)
      handle(events[static_cast<std::size_t>(i)].data.u64,
             events[static_cast<std::size_t>(i)].events);
    emulation_.advance(now_);
  }
  emulation_.finish(monotonic());
}

// Setting the timer also clears an expiry, so the timer is never read.
void Switch::arm_timer(Time last_wake) {
  const Time next = emulation_.next_event();
  const Time at = next == kNever ? Time(0) : std::max(next, last_wake + kGrain);
  if (at == armed_ && at > last_wake) return;
  armed_ = at;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at);
  itimerspec spec{};
  spec.it_value = {seconds.count(), (at - seconds).count()};
  check(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr), "setting the timer");
}

void Switch::handle(std::uint64_t tag, std::uint32_t events) {
  if (tag >= kClient) return serve(static_cast<int>(tag & 0xffffffff), events);
  if (tag >= kDevice) return read_device(static_cast<int>(tag & 0xffffffff));
  if (tag == kControl) return accept_client();
  if (tag == kLifeline) done_ = true;
}

// Packets
// ------------------------------------------------------------------------------------------------------------------

void Switch::read_device(int host) {
  const int fd = devices_[static_cast<std::size_t>(host)].get();
  for (int i = 0; i < kBatch; ++i) {
    PacketBuffer buffer = pool_.take_full();
    const ssize_t size = read(fd, buffer.data(), buffer.size());
    if (size <= 0) return pool_.give_back(std::move(buffer));
    forward(std::move(buffer), static_cast<std::size_t>(size), host);
  }
}

void Switch::forward(PacketBuffer buffer, std::size_t size, int host) {
  const int to = destination(buffer.data(), size);
  if (to < 0 || to >= emulation_.network().hosts()) return pool_.give_back(std::move(buffer));
  Packet packet{.data = pool_.shrink(std::move(buffer), size),
                .bytes = static_cast<std::int64_t>(size - kTunHeader),
                .from = host,
                .to = to};
  emulation_.network().send(std::move(packet), now_);
}

void Switch::deliver(Packet packet) {
  emulation_.delivered(now_ - packet.last_bit);
  // A host that has just ended takes nothing any more; that is not an error of ours.
  [[maybe_unused]] const ssize_t written = write(
      devices_[static_cast<std::size_t>(packet.to)].get(), packet.data.data(), packet.data.size());
  pool_.give_back(std::move(packet.data));
}

// Control
// ------------------------------------------------------------------------------------------------------------------

void Switch::accept_client() {
  const int fd = accept4(control_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  clients_.emplace(fd, Client{Fd(fd, "accepting a control connection"), {}, {}});
  add(fd, kClient | static_cast<std::uint64_t>(fd), EPOLLIN);
}

void Switch::serve(int fd, std::uint32_t events) {
  const auto found = clients_.find(fd);
  if (found == clients_.end()) return;
  Client& client = found->second;
  const bool readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
  if ((readable && !read_client(client)) || !write_client(client)) clients_.erase(found);
}

bool Switch::read_client(Client& client) {
  std::array<char, 4096> buffer{};
  const ssize_t size = read(client.socket.get(), buffer.data(), buffer.size());
  if (size < 0 && errno == EAGAIN) return true;
  if (size <= 0 || client.received.size() > kLongestLine) return false;
  client.received.append(buffer.data(), static_cast<std::size_t>(size));
  for (auto end = client.received.find('\n'); end != std::string::npos;
       end = client.received.find('\n')) {
    client.unsent += execute(emulation_, client.received.substr(0, end), now_) + "\n";
    client.received.erase(0, end + 1);
  }
  return true;
}

// What a slow reader has not taken waits here; the network never does.
bool Switch::write_client(Client& client) {
  const ssize_t written =
      send(client.socket.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
  if (written < 0 && errno != EAGAIN) return false;
  if (written > 0) client.unsent.erase(0, static_cast<std::size_t>(written));
  epoll_event event{};
  event.events = client.unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
  event.data.u64 = kClient | static_cast<std::uint64_t>(client.socket.get());
  return epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.socket.get(), &event) == 0;
}

}  // namespace pliant::lab
