// SPDX-License-Identifier: MIT
#include "pliant/exchange/packets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "pliant/common/split.h"
#include "pliant/compress/payload.h"

namespace pliant::exchange {
namespace {

using Length = std::uint64_t;  // what a part's message begins with

// As much of a room as is wiped: enough for a payload's magic or a part's length.
constexpr std::size_t kFront = 8;

// A message from which on the time of getting pages from the system is small beside the copy, and
// beside the time on any wire.
constexpr std::size_t kLongMessage = std::size_t{1} << 20U;

void append(std::byte*& to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
  to += from.size();
}

}  // namespace

comm::Region pack(std::span<const comm::Region> payloads, Workspace& workspace) {
  if (payloads.size() == 1) return payloads.front();
  std::size_t total = 0;
  for (const auto& payload : payloads) total += payload.bytes.size();
  comm::Region message;
  if (total < kLongMessage) {
    message = workspace.take(total);
  } else {
    const Buffer<std::byte> own(total);
    message = {own.span(), own.owner()};
  }
  std::byte* to = message.bytes.data();
  for (const auto& payload : payloads) append(to, payload.bytes);
  return message;
}

comm::Region room_for(std::size_t bytes, Workspace& workspace) {
  comm::Region room = workspace.take(bytes);
  const std::size_t front = std::min(bytes, kFront);
  if (front > 0) std::memset(room.bytes.data(), 0, front);
  return room;
}

std::vector<comm::Region> unpack(const comm::Region& message, std::size_t count) {
  std::vector<comm::Region> payloads;
  std::span<std::byte> rest = message.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = compress::payload_bytes(rest);
    payloads.push_back({rest.first(size), message.owner});
    rest = rest.subspan(size);
  }
  return payloads;
}

Packets::Packets(std::vector<std::size_t> bounds, Workspace& workspace, Complaint& complaint)
    : bounds_(std::move(bounds)),
      payloads_(bounds_.size()),
      workspace_(workspace),
      complaint_(complaint) {}

bool Packets::follows(const comm::Region& last, const comm::Region& next) {
  return last.owner == next.owner && last.bytes.data() + last.bytes.size() == next.bytes.data();
}

void Packets::put(int b, comm::Region payload) {
  if (run_.bytes.empty()) run_ = payload;
  payloads_[static_cast<std::size_t>(b)] = std::move(payload);
}

void Packets::move_down(comm::Region& payload) {
  std::byte* const end = run_.bytes.data() + run_.bytes.size();
  const std::size_t size = payload.bytes.size();
  if (run_.owner != payload.owner || payload.bytes.data() < end) return;
  if (payload.bytes.data() != end) std::memmove(end, payload.bytes.data(), size);
  payload.bytes = {end, size};
  run_.bytes = {run_.bytes.data(), run_.bytes.size() + size};
}

comm::Region Packets::outgoing(const schedule::Move& move, schedule::OnArrival) {
  std::vector<comm::Region> payloads;
  for (const int b : move.blocks) payloads.push_back(payloads_[static_cast<std::size_t>(b)]);
  comm::Region message = payloads.front();
  bool in_one_run = true;
  for (std::size_t i = 1; i < payloads.size(); ++i) {
    in_one_run = in_one_run && follows(payloads[i - 1], payloads[i]);
    message.bytes = {message.bytes.data(), message.bytes.size() + payloads[i].bytes.size()};
  }
  if (in_one_run) return message;
  message = pack(payloads, workspace_);
  if (message.bytes.size() >= kLongMessage) packed_ = std::max(packed_, message.bytes.size());
  return message;
}

comm::Region Packets::room(const schedule::Move& move, schedule::OnArrival) {
  std::size_t bytes = 0;
  for (const int b : move.blocks) bytes += bounds_[static_cast<std::size_t>(b)];
  comm::Region room = room_for(bytes, workspace_);
  rooms_.push_back(room.bytes.data());
  return room;
}

void Packets::arrived(const schedule::Move& move, schedule::OnArrival,
                      const comm::Region& message) {
  // A room may be written over only by messages for rooms that were asked for later.
  const bool in_order = !rooms_.empty() && rooms_.front() == message.bytes.data();
  if (in_order) rooms_.pop_front();
  complaint_.attempt([&] {
    auto payloads = unpack(message, move.blocks.size());
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      if (in_order) move_down(payloads[i]);
      put(move.blocks[i], payloads[i]);
    }
  });
}

Parts::Parts(const comm::Region& payload, std::size_t bound, int count, Workspace& workspace,
             Complaint& complaint)
    : count_(static_cast<std::size_t>(count)),
      bound_(bound),
      whole_(payload.bytes.empty() ? workspace.take(bound) : payload),
      length_(payload.bytes.size()),
      workspace_(workspace),
      complaint_(complaint) {}

std::span<std::byte> Parts::part(int b) const {
  const std::size_t begin = split_point(length_, count_, static_cast<std::size_t>(b));
  return whole_.bytes.subspan(
      begin, split_point(length_, count_, static_cast<std::size_t>(b) + 1) - begin);
}

comm::Region Parts::outgoing(const schedule::Move& move, schedule::OnArrival) {
  std::size_t bytes = sizeof(Length);
  for (const int b : move.blocks) bytes += part(b).size();
  comm::Region message = workspace_.take(bytes);
  std::byte* to = message.bytes.data();
  const Length length = length_;
  append(to, std::as_bytes(std::span(&length, 1)));
  for (const int b : move.blocks) append(to, part(b));
  return message;
}

comm::Region Parts::room(const schedule::Move& move, schedule::OnArrival) {
  return room_for(sizeof(Length) + move.blocks.size() * (bound_ / count_ + 1), workspace_);
}

void Parts::arrived(const schedule::Move& move, schedule::OnArrival, const comm::Region& message) {
  complaint_.attempt([&] {
    Length length = 0;
    if (message.bytes.size() >= sizeof(length))
      std::memcpy(&length, message.bytes.data(), sizeof(length));
    const auto corrupt = [](const std::string& why) {
      throw compress::CorruptPayload("size", "a part of a payload: corrupt size: " + why);
    };
    if (length == 0 || length > bound_)
      corrupt(fmt::format("{} bytes, at most {} are expected", length, bound_));
    if (length_ != 0 && length_ != length)
      corrupt(fmt::format("{} bytes, another part said {}", length, length_));
    length_ = length;
    std::span<const std::byte> rest = message.bytes.subspan(sizeof(length));
    for (const int b : move.blocks) {
      const auto mine = part(b);
      if (rest.size() < mine.size())
        corrupt(fmt::format("{} bytes are missing", mine.size() - rest.size()));
      if (!mine.empty()) std::memcpy(mine.data(), rest.data(), mine.size());
      rest = rest.subspan(mine.size());
    }
  });
}

}  // namespace pliant::exchange
