// SPDX-License-Identifier: MIT
#include "pliant/compress/index_stream.h"

#include <algorithm>
#include <cstring>

#include "pliant/common/errors.h"
#include "pliant/compress/padding.h"
#include "pliant/kernels/increasing.h"
#include "pliant/kernels/rice.h"
#include "pliant/plan/code_sizes.h"

namespace pliant::compress {
namespace {

using plan::IndexCode;
using plan::kIndexBlock;

constexpr const char* kDisorder = "indices are not strictly increasing";
constexpr const char* kTooLarge = "an index is not below the length";

// --- raw32: the indices ---

std::size_t write_raw(std::span<const std::uint32_t> indices, std::byte* out) {
  std::memcpy(out, indices.data(), indices.size_bytes());
  return pad(out, indices.size_bytes());
}

const char* read_raw(std::span<const std::byte> stream, std::span<std::uint32_t> indices) {
  std::memcpy(indices.data(), stream.data(), indices.size_bytes());
  return is_zero(stream.subspan(indices.size_bytes())) ? nullptr : kPadding;
}

// --- block16: how many indices each block of 65,536 has (32 bits each), then the low 16 bits of
// all ---

std::size_t write_blocks(std::uint32_t length, std::span<const std::uint32_t> indices,
                         std::byte* out) {
  const std::uint64_t blocks = plan::divide_up(length, kIndexBlock);
  std::byte* low = out + 4 * blocks;
  auto first = indices.begin();
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const auto last = std::lower_bound(first, indices.end(), (block + 1) * kIndexBlock);
    const auto count = static_cast<std::uint32_t>(last - first);
    std::memcpy(out + 4 * block, &count, 4);
    for (; first != last; ++first, low += 2) {
      const auto offset = static_cast<std::uint16_t>(*first);
      std::memcpy(low, &offset, 2);
    }
  }
  return pad(out, static_cast<std::size_t>(low - out));
}

const char* read_blocks(std::uint32_t length, std::span<const std::byte> stream,
                        std::span<std::uint32_t> indices) {
  const std::uint64_t blocks = plan::divide_up(length, kIndexBlock);
  const std::byte* low = stream.data() + 4 * blocks;
  std::size_t done = 0;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    std::uint32_t count;
    std::memcpy(&count, stream.data() + 4 * block, 4);
    if (count > indices.size() - done) return "blocks have more indices than the header says";
    const auto base = static_cast<std::uint32_t>(block * kIndexBlock);
    for (const std::size_t end = done + count; done < end; ++done, low += 2) {
      std::uint16_t offset;
      std::memcpy(&offset, low, 2);
      indices[done] = base | offset;
    }
  }
  if (done != indices.size()) return "blocks have fewer indices than the header says";
  return is_zero(stream.subspan(static_cast<std::size_t>(low - stream.data()))) ? nullptr
                                                                                : kPadding;
}

const char* read_sorted(IndexCode code, std::uint32_t length, std::span<const std::byte> stream,
                        std::span<std::uint32_t> indices) {
  const char* fault =
      code == IndexCode::kRaw32 ? read_raw(stream, indices) : read_blocks(length, stream, indices);
  if (fault != nullptr) return fault;
  if (!kernels::is_increasing(indices)) return kDisorder;
  return indices.back() < length ? nullptr : kTooLarge;
}

// --- rice: increasing by construction ---

const char* read_rice(std::uint32_t length, std::span<const std::byte> stream,
                      std::span<std::uint32_t> indices) {
  const auto last =
      kernels::rice_decode(stream, plan::rice_parameter(length, indices.size()), indices);
  if (!last) return "not the Rice code of as many gaps as the header says";
  return *last < length ? nullptr : kTooLarge;
}

}  // namespace

void require_sorted(std::span<const std::uint32_t> indices, std::uint32_t length) {
  require(kernels::is_increasing(indices), "encode: {}", kDisorder);
  require(indices.empty() || indices.back() < length, "encode: index {} of a span of {}",
          indices.empty() ? 0 : indices.back(), length);
}

std::size_t write_indices(IndexCode code, std::uint32_t length,
                          std::span<const std::uint32_t> indices, std::byte* out) {
  if (indices.empty()) return 0;
  if (code == IndexCode::kRaw32) return write_raw(indices, out);
  if (code == IndexCode::kBlock16) return write_blocks(length, indices, out);
  return kernels::rice_encode(indices, plan::rice_parameter(length, indices.size()), out);
}

const char* read_indices(IndexCode code, std::uint32_t length, std::span<const std::byte> stream,
                         std::span<std::uint32_t> indices) {
  if (indices.empty()) return nullptr;
  return code == IndexCode::kRice ? read_rice(length, stream, indices)
                                  : read_sorted(code, length, stream, indices);
}

}  // namespace pliant::compress
