// SPDX-License-Identifier: MIT
#include "pliant/compress/value_stream.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "pliant/common/errors.h"
#include "pliant/compress/padding.h"
#include "pliant/kernels/int2.h"
#include "pliant/kernels/quantize.h"
#include "pliant/plan/code_sizes.h"

namespace pliant::compress {
namespace {

using plan::kMostScaleGroup;
using plan::ValueCode;

// What f16, int8 and int4 have in common: scales of all groups, padding, coded values of all
// groups, padding.
struct ScaledCode {
  std::size_t group;        // values that share a scale
  std::size_t group_bytes;  // of a full group
  kernels::ScaleBits (*choose_scale)(std::uint32_t max_magnitude);
  bool (*is_scale)(kernels::ScaleBits);
  void (*encode)(std::span<float>, float scale, std::byte*, float* differences);
  bool (*decode)(const std::byte*, float scale, std::span<float>);
};

const ScaledCode& scaled(ValueCode code) {
  using namespace kernels;
  constexpr std::size_t kFloats = plan::scale_group(ValueCode::kF16);
  constexpr std::size_t kBytes = plan::scale_group(ValueCode::kInt8);
  constexpr std::size_t kHalves = plan::scale_group(ValueCode::kInt4);
  static constexpr std::array<ScaledCode, 3> kAll = {{
      {kFloats, 2 * kFloats, f16_scale, is_f16_scale, f16_encode, f16_decode},
      {kBytes, kBytes, int8_scale, is_int8_scale, int8_encode, int8_decode},
      {kHalves, kHalves / 2, int4_scale, is_int4_scale, int4_encode, int4_decode},
  }};
  return kAll.at(static_cast<std::size_t>(code) - static_cast<std::size_t>(ValueCode::kF16));
}

std::size_t used_bytes(const ScaledCode& code, std::size_t count) {
  return plan::divide_up(count * code.group_bytes, code.group);
}

std::size_t write_scaled(const ScaledCode& code, std::span<float> values, std::byte* out,
                         const OnDifferences& on_differences) {
  const std::size_t groups = plan::divide_up(values.size(), code.group);
  std::byte* coded = out + pad(out, groups * sizeof(kernels::ScaleBits));
  std::array<float, kMostScaleGroup> differences;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t begin = g * code.group;
    const auto group = values.subspan(begin, std::min(code.group, values.size() - begin));
    const kernels::ScaleBits scale = code.choose_scale(kernels::max_magnitude(group));
    std::memcpy(out + g * sizeof(scale), &scale, sizeof(scale));
    code.encode(group, kernels::scale_value(scale), coded + g * code.group_bytes,
                differences.data());
    on_differences(begin, std::span(differences).first(group.size()));
  }
  return static_cast<std::size_t>(coded - out) + pad(coded, used_bytes(code, values.size()));
}

const char* read_scaled(const ScaledCode& code, std::span<const std::byte> stream,
                        std::span<float> values) {
  const std::size_t groups = plan::divide_up(values.size(), code.group);
  const std::size_t scale_bytes = groups * sizeof(kernels::ScaleBits);
  const auto coded = stream.subspan(plan::padded(scale_bytes));
  if (!is_zero(stream.first(plan::padded(scale_bytes)).subspan(scale_bytes))) return kPadding;
  if (!is_zero(coded.subspan(used_bytes(code, values.size())))) return kPadding;
  for (std::size_t g = 0; g < groups; ++g) {
    kernels::ScaleBits scale;
    std::memcpy(&scale, stream.data() + g * sizeof(scale), sizeof(scale));
    if (!code.is_scale(scale)) return "a scale that no sender chooses";
    const std::size_t begin = g * code.group;
    const auto group = values.subspan(begin, std::min(code.group, values.size() - begin));
    if (!code.decode(coded.data() + g * code.group_bytes, kernels::scale_value(scale), group))
      return "a value that no sender writes";
  }
  return nullptr;
}

// int2 has two scales a group, its levels: low, then high.
constexpr std::size_t kInt2Group = plan::scale_group(ValueCode::kInt2);
constexpr std::size_t kInt2GroupBytes = kInt2Group / 4;
using LevelPair = std::array<kernels::ScaleBits, 2>;

std::size_t write_int2(std::span<float> values, std::byte* out,
                       const OnDifferences& on_differences) {
  const std::size_t groups = plan::divide_up(values.size(), kInt2Group);
  std::byte* coded = out + pad(out, groups * sizeof(LevelPair));
  std::array<float, kInt2Group> differences;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t begin = g * kInt2Group;
    const auto group = values.subspan(begin, std::min(kInt2Group, values.size() - begin));
    const kernels::Int2Levels levels = kernels::int2_levels(group);
    const LevelPair pair = {levels.low, levels.high};
    std::memcpy(out + g * sizeof(pair), pair.data(), sizeof(pair));
    kernels::int2_encode(group, levels, coded + g * kInt2GroupBytes, differences.data());
    on_differences(begin, std::span(differences).first(group.size()));
  }
  return static_cast<std::size_t>(coded - out) + pad(coded, plan::divide_up(values.size(), 4));
}

LevelPair level_pair(std::span<const std::byte> stream, std::size_t group) {
  LevelPair pair;
  std::memcpy(pair.data(), stream.data() + group * sizeof(pair), sizeof(pair));
  return pair;
}

const char* read_int2(std::span<const std::byte> stream, std::span<float> values) {
  const std::size_t groups = plan::divide_up(values.size(), kInt2Group);
  const std::size_t level_bytes = groups * sizeof(LevelPair);
  const auto coded = stream.subspan(plan::padded(level_bytes));
  if (!is_zero(stream.first(plan::padded(level_bytes)).subspan(level_bytes))) return kPadding;
  if (!is_zero(coded.subspan(plan::divide_up(values.size(), 4)))) return kPadding;
  for (std::size_t g = 0; g < groups; ++g) {
    const auto [low, high] = level_pair(stream, g);
    if (!kernels::are_int2_levels(low, high)) return "levels that no sender chooses";
    const std::size_t begin = g * kInt2Group;
    const auto group = values.subspan(begin, std::min(kInt2Group, values.size() - begin));
    if (!kernels::int2_decode(coded.data() + g * kInt2GroupBytes, low, high, group))
      return "a value that no sender writes";
  }
  return nullptr;
}

std::size_t write_plain(std::span<const float> values, std::byte* out) {
  std::memcpy(out, values.data(), values.size_bytes());
  return pad(out, values.size_bytes());
}

const char* read_plain(std::span<const std::byte> stream, std::span<float> values) {
  std::memcpy(values.data(), stream.data(), values.size_bytes());
  if (kernels::max_magnitude(values) >= kernels::kInfinityBits) return "a value is not finite";
  return is_zero(stream.subspan(values.size_bytes())) ? nullptr : kPadding;
}

}  // namespace

void require_finite(std::span<const float> values) {
  require(kernels::max_magnitude(values) < kernels::kInfinityBits, "encode: a value is not finite");
}

std::size_t write_values(ValueCode code, std::span<float> values, std::byte* out,
                         const OnDifferences& on_differences) {
  if (values.empty()) return 0;
  if (code == ValueCode::kF32) return write_plain(values, out);
  if (code == ValueCode::kInt2) return write_int2(values, out, on_differences);
  return write_scaled(scaled(code), values, out, on_differences);
}

const char* read_values(ValueCode code, std::span<const std::byte> stream,
                        std::span<float> values) {
  if (values.empty()) return nullptr;
  if (code == ValueCode::kF32) return read_plain(stream, values);
  if (code == ValueCode::kInt2) return read_int2(stream, values);
  return read_scaled(scaled(code), stream, values);
}

void read_value_group(ValueCode code, std::span<const std::byte> stream, std::size_t count,
                      std::size_t group, std::span<float> values) {
  if (code == ValueCode::kF32) {
    std::memcpy(values.data(), stream.data() + group * plan::scale_group(code) * sizeof(float),
                values.size_bytes());
    return;
  }
  if (code == ValueCode::kInt2) {
    const auto [low, high] = level_pair(stream, group);
    const std::size_t levels = plan::padded(plan::divide_up(count, kInt2Group) * sizeof(LevelPair));
    (void)kernels::int2_decode(stream.data() + levels + group * kInt2GroupBytes, low, high, values);
    return;
  }
  const ScaledCode& how = scaled(code);
  const std::size_t groups = plan::divide_up(count, how.group);
  kernels::ScaleBits scale;
  std::memcpy(&scale, stream.data() + group * sizeof(scale), sizeof(scale));
  const std::byte* coded =
      stream.data() + plan::padded(groups * sizeof(scale)) + group * how.group_bytes;
  (void)how.decode(coded, kernels::scale_value(scale), values);
}

}  // namespace pliant::compress
