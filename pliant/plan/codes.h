// SPDX-License-Identifier: MIT
// Wire codes: the ways in which a payload writes its indices and its values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pliant::plan {

// The numbers are part of the payload format (docs/formats/payload.md) and never change meaning.
enum class ValueCode : std::uint8_t { kF32 = 0, kF16 = 1, kInt8 = 2, kInt4 = 3, kInt2 = 4 };
enum class IndexCode : std::uint8_t { kRaw32 = 0, kBlock16 = 1, kRice = 2 };

inline constexpr std::array kValueCodes = {ValueCode::kF32, ValueCode::kF16, ValueCode::kInt8,
                                           ValueCode::kInt4, ValueCode::kInt2};
inline constexpr std::array kIndexCodes = {IndexCode::kRaw32, IndexCode::kBlock16,
                                           IndexCode::kRice};

constexpr std::string_view to_string(ValueCode code) {
  constexpr std::array<std::string_view, 5> names = {"f32", "f16", "int8", "int4", "int2"};
  return names.at(static_cast<std::size_t>(code));
}
// So few levels that what they round counts in the worth of a step.
constexpr bool is_coarse(ValueCode code) {
  return code == ValueCode::kInt4 || code == ValueCode::kInt2;
}

constexpr std::string_view to_string(IndexCode code) {
  constexpr std::array<std::string_view, 3> names = {"raw32", "block16", "rice"};
  return names.at(static_cast<std::size_t>(code));
}

}  // namespace pliant::plan
