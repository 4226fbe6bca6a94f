// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/net/packet.h"

namespace pliant::lab {
namespace {

// Most packets are either acknowledgements (under 100 bytes) or full: 256 separates them at every
// usual MTU.
constexpr std::size_t kSmall = 256;
// More than this is not kept: 4096 buffers of 9 KB are 36 MB, the traffic of 50 ms at several
// Gbit/s.
constexpr std::size_t kShelf = 4096;

}  // namespace

PacketBuffer PacketPool::take(std::vector<PacketBuffer>& shelf, std::size_t capacity) {
  PacketBuffer buffer;
  if (!shelf.empty()) {
    buffer = std::move(shelf.back());
    shelf.pop_back();
  }
  buffer.resize(capacity);
  return buffer;
}

PacketBuffer PacketPool::shrink(PacketBuffer full, std::size_t used) {
  if (used > kSmall) {
    full.resize(used);
    return full;
  }
  PacketBuffer buffer = take(small_, kSmall);
  buffer.assign(full.begin(), full.begin() + static_cast<std::ptrdiff_t>(used));
  give_back(std::move(full));
  return buffer;
}

void PacketPool::give_back(PacketBuffer buffer) {
  auto& shelf = buffer.capacity() >= full_size_ ? full_ : small_;
  if (shelf.size() < kShelf) shelf.push_back(std::move(buffer));
}

}  // namespace pliant::lab
