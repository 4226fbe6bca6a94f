// SPDX-License-Identifier: MIT
// PayloadReader: the entries of a payload, in order and a few at a time, so that many payloads can
// be added without holding any of them decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pliant/compress/payload.h"

namespace pliant::compress {

class PayloadReader {
 public:
  // Of a payload with indices and values whose streams decode_indices() and decode_values() have
  // accepted: nothing is checked again. Its bytes must live as long as the reader.
  explicit PayloadReader(const Opened& opened);

  // Calls `work(index, value)` for each entry that is left and whose index is below `limit`.
  template <typename Work>
  void read_below(std::uint64_t limit, Work work) {
    for (; done_ < opened_.count && next_ < limit; advance())
      work(static_cast<std::uint32_t>(next_), value());
  }

 private:
  void advance() {
    if (++done_ < opened_.count) next_ = index();
  }
  std::uint64_t index();  // of entry done_
  std::uint64_t rice_index();
  std::uint64_t block_index();
  float value() {
    if (done_ >= group_end_) read_group();
    return values_[done_ - group_begin_];
  }
  void read_group();

  Opened opened_;
  std::size_t done_ = 0;
  std::uint64_t next_ = 0;  // index of entry done_
  // rice: both planes (kernels/rice.h)
  int parameter_ = 0;
  std::size_t low_bytes_ = 0;
  std::size_t word_at_ = 0;  // of the high plane
  std::uint64_t word_ = 0;   // what is left of it
  std::uint64_t low_sum_ = 0;
  // block16
  std::uint64_t block_ = 0;
  std::uint32_t left_in_block_ = 0;
  // values of one group
  std::size_t group_begin_ = 0;
  std::size_t group_end_ = 0;
  std::array<float, plan::kMostScaleGroup> values_;
};

}  // namespace pliant::compress
