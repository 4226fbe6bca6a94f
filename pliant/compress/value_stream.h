// SPDX-License-Identifier: MIT
// The value stream of a payload: f32, f16, int8, int4 or int2 (docs/formats/payload.md).
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "pliant/plan/codes.h"

namespace pliant::compress {

// Called for each group in turn with the place of its first value and what rounding took from each.
using OnDifferences = std::function<void(std::size_t begin, std::span<const float> differences)>;

// ContractError if any is infinite or NaN.
void require_finite(std::span<const float> values);

// Finite values to `out`, which has plan::value_stream_bytes bytes; returns the bytes written.
// `values` become what a reader makes of them. f32 has no differences and makes no call.
[[nodiscard]] std::size_t write_values(plan::ValueCode code, std::span<float> values,
                                       std::byte* out, const OnDifferences& on_differences);

// Fills `values` from a stream of exactly plan::value_stream_bytes. Returns the reason why it is
// invalid, or nullptr.
[[nodiscard]] const char* read_values(plan::ValueCode code, std::span<const std::byte> stream,
                                      std::span<float> values);

// The values of one group of plan::scale_group(code), the last one shorter, from the stream of
// `count` values that read_values has accepted.
void read_value_group(plan::ValueCode code, std::span<const std::byte> stream, std::size_t count,
                      std::size_t group, std::span<float> values);

}  // namespace pliant::compress
