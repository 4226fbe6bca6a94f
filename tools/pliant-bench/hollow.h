// SPDX-License-Identifier: MIT
// Room for simulations of many ranks in one process: messages have their true size but no content.
#pragma once

#include <cstddef>

#include "pliant/common/buffer.h"
#include "pliant/exchange/run.h"

namespace pliant::bench {

// `size` bytes of address space that share a few pages: 256 ranks of 8 MiB take 64 MiB. Throws IoError.
[[nodiscard]] comm::Region hollow_memory(std::size_t size);

// Blocks of a vector of `count` floats cut into `blocks`, all of whose messages lie in the same hollow memory.
class HollowBlocks final : public exchange::Blocks {
 public:
  HollowBlocks(comm::Region hollow, std::size_t count, int blocks);

  comm::Region outgoing(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  comm::Region room(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  void arrived(const schedule::Move& move, schedule::OnArrival on_arrival, const comm::Region& message) override;

 private:
  comm::Region hollow_;
  std::vector<std::size_t> begins_;
};

}  // namespace pliant::bench
