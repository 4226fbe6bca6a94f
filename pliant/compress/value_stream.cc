// SPDX-License-Identifier: MIT
#include "pliant/compress/value_stream.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "pliant/common/errors.h"
#include "pliant/compress/padding.h"
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
  return code == ValueCode::kF32 ? write_plain(values, out)
                                 : write_scaled(scaled(code), values, out, on_differences);
}

const char* read_values(ValueCode code, std::span<const std::byte> stream,
                        std::span<float> values) {
  if (values.empty()) return nullptr;
  return code == ValueCode::kF32 ? read_plain(stream, values)
                                 : read_scaled(scaled(code), stream, values);
}

void read_value_group(ValueCode code, std::span<const std::byte> stream, std::size_t count,
                      std::size_t group, std::span<float> values) {
  if (code == ValueCode::kF32) {
    std::memcpy(values.data(), stream.data() + group * plan::scale_group(code) * sizeof(float),
                values.size_bytes());
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
