// SPDX-License-Identifier: MIT
#include "pliant/kernels/partition.h"

#include "pliant/kernels/magnitude.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pliant/kernels/partition.cc"
#include <hwy/foreach_target.h>  // compiles what follows once per target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace pliant::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR  // without SIMD the twin is the kernel

using scalar::bracket;
using scalar::split_below;

#else

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Unsigned = hn::RebindToUnsigned<Floats>;

// Magnitudes are not negative as signed integers, which every target compares.
HWY_ATTR HWY_INLINE hn::Vec<Ints> magnitudes(hn::Vec<Floats> x) {
  return hn::BitCast(Ints(), hn::Abs(x));
}
HWY_ATTR HWY_INLINE hn::Vec<Ints> limit(float x) {
  return hn::Set(Ints(), static_cast<std::int32_t>(magnitude_bits(x)));
}

HWY_ATTR Bracket bracket(std::span<const float> values, float low, float high,
                         std::span<float> inside) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto lowest = limit(low), highest = limit(high);
  Bracket found;
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const auto keys = magnitudes(hn::LoadU(Floats(), values.data() + i));
    const auto above = hn::Gt(keys, highest);
    const auto within = hn::AndNot(above, hn::Not(hn::Lt(keys, lowest)));
    hn::StoreU(hn::Compress(keys, within), Ints(),
               reinterpret_cast<std::int32_t*>(inside.data()) + found.inside);
    found.above += hn::CountTrue(Ints(), above);
    found.inside += hn::CountTrue(Ints(), within);
  }
  const Bracket rest = scalar::bracket(values.subspan(i), low, high, inside.subspan(found.inside));
  return {.above = found.above + rest.above, .inside = found.inside + rest.inside};
}

HWY_ATTR std::size_t split_below(std::span<std::uint32_t> indices, std::span<float> values,
                                 float threshold, const Room& below) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto lowest = limit(threshold);
  std::size_t kept = 0, lost = 0, i = 0;
  for (; i + lanes <= values.size();
       i += lanes) {  // whole vectors are stored, never beyond what has been read
    const auto x = hn::LoadU(Floats(), values.data() + i);
    const auto index = hn::LoadU(Unsigned(), indices.data() + i);
    const auto loses = hn::Lt(magnitudes(x), lowest);
    const auto x_loses = hn::RebindMask(Floats(), loses);
    const auto index_loses = hn::RebindMask(Unsigned(), loses);
    hn::StoreU(hn::Compress(x, x_loses), Floats(), below.values.data() + lost);
    hn::StoreU(hn::Compress(index, index_loses), Unsigned(), below.indices.data() + lost);
    hn::StoreU(hn::Compress(x, hn::Not(x_loses)), Floats(), values.data() + kept);
    hn::StoreU(hn::Compress(index, hn::Not(index_loses)), Unsigned(), indices.data() + kept);
    const std::size_t losers = hn::CountTrue(Ints(), loses);
    lost += losers;
    kept += lanes - losers;
  }
  for (; i < values.size(); ++i) {
    const float x = values[i];
    const std::uint32_t index = indices[i];
    if (magnitude_bits(x) < magnitude_bits(threshold)) {
      below.indices[lost] = index;
      below.values[lost++] = x;
    } else {
      indices[kept] = index;
      values[kept++] = x;
    }
  }
  return kept;
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace pliant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pliant::kernels {

HWY_EXPORT(bracket);
HWY_EXPORT(split_below);

Bracket bracket(std::span<const float> values, float low, float high, std::span<float> inside) {
  return HWY_DYNAMIC_DISPATCH(bracket)(values, low, high, inside);
}

std::size_t split_below(std::span<std::uint32_t> indices, std::span<float> values, float threshold,
                        const Room& below) {
  return HWY_DYNAMIC_DISPATCH(split_below)(indices, values, threshold, below);
}

namespace scalar {

Bracket bracket(std::span<const float> values, float low, float high, std::span<float> inside) {
  Bracket found;
  for (const float x : values) {
    if (magnitude_bits(x) > magnitude_bits(high)) {
      ++found.above;
    } else if (magnitude_bits(x) >= magnitude_bits(low)) {
      inside[found.inside++] = magnitude(x);
    }
  }
  return found;
}

std::size_t split_below(std::span<std::uint32_t> indices, std::span<float> values, float threshold,
                        const Room& below) {
  std::size_t kept = 0, lost = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = values[i];
    const std::uint32_t index = indices[i];
    const bool loses = magnitude_bits(x) < magnitude_bits(threshold);
    (loses ? below.indices[lost] : indices[kept]) = index;
    (loses ? below.values[lost++] : values[kept++]) = x;
  }
  return kept;
}

}  // namespace scalar
}  // namespace pliant::kernels
#endif  // HWY_ONCE
