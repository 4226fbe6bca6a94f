// SPDX-License-Identifier: MIT
// The index stream of a payload: raw32, block16 or rice (docs/formats/payload.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pliant/plan/codes.h"

namespace pliant::compress {

// ContractError unless strictly increasing and below `length`.
void require_sorted(std::span<const std::uint32_t> indices, std::uint32_t length);

// Sorted indices to `out`, which has plan::index_stream_bound bytes; returns the bytes written.
[[nodiscard]] std::size_t write_indices(plan::IndexCode code, std::uint32_t length,
                                        std::span<const std::uint32_t> indices, std::byte* out);

// Fills `indices` from a stream no longer than plan::index_stream_bound, and exactly as long for
// raw32 and block16. Returns the reason why it is invalid, or nullptr.
[[nodiscard]] const char* read_indices(plan::IndexCode code, std::uint32_t length,
                                       std::span<const std::byte> stream,
                                       std::span<std::uint32_t> indices);

}  // namespace pliant::compress
