// SPDX-License-Identifier: MIT
// Memory for simulations of many ranks in one process: messages have their true size but no
// content.
#pragma once

#include <cstddef>
#include <vector>

#include "pliant/common/buffer.h"
#include "pliant/exchange/run.h"

namespace pliant::bench {

// `size` bytes of address space that share a few pages: 256 ranks take 256 MiB. Throws IoError.
[[nodiscard]] comm::Region hollow_memory(std::size_t size);

// Blocks of these sizes, all of whose messages lie in the same hollow memory.
class HollowBlocks final : public exchange::Blocks {
 public:
  HollowBlocks(comm::Region hollow, std::vector<double> block_bytes);
  HollowBlocks(comm::Region hollow, std::size_t count,
               int blocks);  // of a vector of `count` floats, cut evenly

  [[nodiscard]] std::size_t bytes_of(const schedule::Move& move) const;

  comm::Region outgoing(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  comm::Region room(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  void arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
               const comm::Region& message) override;

 private:
  comm::Region hollow_;
  std::vector<double> block_bytes_;
};

}  // namespace pliant::bench
