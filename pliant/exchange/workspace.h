// SPDX-License-Identifier: MIT
// Workspace: scratch memory that is kept between exchanges, so that only the first one has to get
// its pages from the system.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "pliant/comm/communicator.h"

namespace pliant::exchange {

class Workspace {
 public:
  // `size` bytes, aligned, valid (and shared with the holder of the region) until the next reset().
  [[nodiscard]] comm::Region take(std::size_t size) {
    const std::size_t rounded = (size + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    if (slabs_.empty() || used_ + rounded > slabs_.back().size()) {
      slabs_.emplace_back(std::max({rounded, capacity() / 2, slabs_.empty() ? wanted_ : 0}));
      used_ = 0;
    }
    const Buffer<std::byte>& slab = slabs_.back();
    comm::Region region{slab.span().subspan(used_, size), slab.owner()};
    used_ += rounded;
    return region;
  }

  // Makes sure that so many bytes can be taken without another slab, if nothing is taken yet.
  void reserve(std::size_t size) {
    if (used_ > 0 || (!slabs_.empty() && slabs_.back().size() >= size)) return;
    slabs_.clear();
    slabs_.emplace_back(std::max(size, wanted_));
  }

  // Everything taken so far may be handed out again, but for regions that are still held: after an
  // error a dead communicator may have messages under way into it.
  void reset() {
    std::erase_if(slabs_, [](const Buffer<std::byte>& slab) { return slab.shared(); });
    if (slabs_.size() > 1) {  // the next exchange of this shape finds one slab that fits
      wanted_ = capacity();
      slabs_.clear();
    }
    used_ = 0;
  }

  [[nodiscard]] std::size_t capacity() const {
    std::size_t bytes = 0;
    for (const auto& slab : slabs_) bytes += slab.size();
    return bytes;
  }

 private:
  std::vector<Buffer<std::byte>> slabs_;
  std::size_t used_ = 0;    // of the last slab
  std::size_t wanted_ = 0;  // size of the next slab if there is none
};

}  // namespace pliant::exchange
