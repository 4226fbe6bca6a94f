// SPDX-License-Identifier: MIT
#include "pliant/compress/payload_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "pliant/common/errors.h"
#include "pliant/compress/value_stream.h"

namespace pliant::compress {
namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

PayloadReader::PayloadReader(const Opened& opened) : opened_(opened) {
  require(opened.envelope.contents == plan::Contents::kBoth,
          "decode: a payload without values or indices");
  if (opened.count == 0) return;
  const std::byte* const stream = opened.index_stream.data();
  if (opened.envelope.codes.indices == plan::IndexCode::kRice) {
    parameter_ = plan::rice_parameter(opened.envelope.length, opened.count);
    low_bytes_ = static_cast<std::size_t>(plan::rice_low_bytes(opened.count, parameter_));
    word_at_ = low_bytes_;
    word_ = load<std::uint64_t>(stream + word_at_);
  } else if (opened.envelope.codes.indices == plan::IndexCode::kBlock16) {
    left_in_block_ = load<std::uint32_t>(stream);
  }
  next_ = index();
}

std::uint64_t PayloadReader::index() {
  switch (opened_.envelope.codes.indices) {
    case plan::IndexCode::kRice:
      return rice_index();
    case plan::IndexCode::kBlock16:
      return block_index();
    case plan::IndexCode::kRaw32:
      break;
  }
  return load<std::uint32_t>(opened_.index_stream.data() + 4 * done_);
}

std::uint64_t PayloadReader::rice_index() {
  const std::byte* const stream = opened_.index_stream.data();
  while (word_ == 0) word_ = load<std::uint64_t>(stream + (word_at_ += 8));
  const std::uint64_t zeros =
      8 * (word_at_ - low_bytes_) + static_cast<std::uint64_t>(std::countr_zero(word_)) - done_;
  word_ &= word_ - 1;
  const std::size_t bit = done_ * static_cast<std::size_t>(parameter_);
  const std::uint64_t mask = (std::uint64_t{1} << parameter_) - 1;
  low_sum_ += (load<std::uint64_t>(stream + bit / 8) >> bit % 8) & mask;
  return (zeros << parameter_) + low_sum_ + done_;
}

std::uint64_t PayloadReader::block_index() {
  const std::byte* const stream = opened_.index_stream.data();
  while (left_in_block_ == 0) left_in_block_ = load<std::uint32_t>(stream + 4 * ++block_);
  --left_in_block_;
  const std::uint64_t blocks = plan::divide_up(opened_.envelope.length, plan::kIndexBlock);
  return block_ * plan::kIndexBlock + load<std::uint16_t>(stream + 4 * blocks + 2 * done_);
}

void PayloadReader::read_group() {
  const plan::ValueCode code = opened_.envelope.codes.values;
  const std::size_t size = plan::scale_group(code);
  const std::size_t group = done_ / size;
  group_begin_ = group * size;
  group_end_ = std::min<std::size_t>(group_begin_ + size, opened_.count);
  read_value_group(code, opened_.value_stream, opened_.count, group,
                   std::span(values_).first(group_end_ - group_begin_));
}

}  // namespace pliant::compress
