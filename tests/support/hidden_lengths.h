// SPDX-License-Identifier: MIT
// A communicator that does not tell how long a message was: what a backend like Gloo does, and
// rubbish behind the message.
#pragma once

#include <cstring>
#include <map>

#include "pliant/comm/communicator.h"

namespace pliant::testing {

class HiddenLengths final : public comm::Communicator {
 public:
  explicit HiddenLengths(comm::Communicator& inner) : inner_(inner) {}

  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  comm::Ticket send(int peer, comm::Tag tag, comm::Region message) override {
    return inner_.send(peer, tag, std::move(message));
  }
  comm::Ticket receive(int peer, comm::Tag tag, comm::Region room) override {
    const auto bytes = room.bytes;
    const comm::Ticket ticket = inner_.receive(peer, tag, std::move(room));
    rooms_[ticket] = bytes;
    return ticket;
  }
  Bytes wait(comm::Ticket ticket, const comm::Patience& patience) override {
    const Bytes size = inner_.wait(ticket, patience);
    const auto room = rooms_.extract(ticket);
    if (room.empty() || static_cast<std::size_t>(size.value) > room.mapped().size()) return size;
    const auto rest = room.mapped().subspan(static_cast<std::size_t>(size.value));
    if (!rest.empty()) std::memset(rest.data(), 0xA5, rest.size());
    return {static_cast<std::int64_t>(room.mapped().size())};
  }
  void all_reduce(const comm::Floats& floats, const comm::Patience& patience) override {
    inner_.all_reduce(floats, patience);
  }
  [[nodiscard]] comm::Capabilities capabilities() const override {
    comm::Capabilities capabilities = inner_.capabilities();
    capabilities.tells_length = false;
    return capabilities;
  }
  [[nodiscard]] Seconds now() const override { return inner_.now(); }

 private:
  comm::Communicator& inner_;
  std::map<comm::Ticket, std::span<std::byte>> rooms_;
};

}  // namespace pliant::testing
