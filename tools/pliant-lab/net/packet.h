// SPDX-License-Identifier: MIT
// A packet in the network: its bytes, and when its first and last bit pass the point where it is
// now.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "tools/pliant-lab/net/time.h"

namespace pliant::lab {

using PacketBuffer = std::vector<std::byte>;

struct Packet {
  PacketBuffer data{};     // as read from the device
  std::int64_t bytes = 0;  // what counts on the wire: the IP packet
  int from = 0;
  int to = 0;
  Time first_bit{0};
  Time last_bit{0};
};

// Keeps the memory of packets that are gone. Full-size buffers are for reading; a small packet
// moves to a small buffer, so that thousands of acknowledgements in flight do not hold thousands of
// full-size ones.
class PacketPool {
 public:
  explicit PacketPool(std::size_t full_size) : full_size_(full_size) {}
  [[nodiscard]] PacketBuffer take_full() { return take(full_, full_size_); }
  [[nodiscard]] PacketBuffer shrink(PacketBuffer full, std::size_t used);
  void give_back(PacketBuffer buffer);

 private:
  [[nodiscard]] static PacketBuffer take(std::vector<PacketBuffer>& shelf, std::size_t capacity);

  std::size_t full_size_;
  std::vector<PacketBuffer> full_;
  std::vector<PacketBuffer> small_;
};

}  // namespace pliant::lab
