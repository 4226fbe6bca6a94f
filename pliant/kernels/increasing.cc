// SPDX-License-Identifier: MIT
#include "pliant/kernels/increasing.h"

#include <algorithm>
#include <functional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pliant/kernels/increasing.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace pliant::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

bool is_increasing(std::span<const std::uint32_t> indices) {
  const hn::ScalableTag<std::uint32_t> d;
  std::size_t i = 1;
  auto disorder = hn::Zero(d);
  for (; i + hn::Lanes(d) <= indices.size(); i += hn::Lanes(d)) {
    const auto before = hn::LoadU(d, indices.data() + i - 1);
    const auto most = hn::Max(before, hn::LoadU(d, indices.data() + i));
    disorder = hn::Or(disorder, hn::VecFromMask(d, hn::Eq(most, before)));
  }
  const bool rises = hn::AllTrue(d, hn::Eq(disorder, hn::Zero(d)));
  return rises && scalar::is_increasing(indices.subspan(std::min(i - 1, indices.size())));
}

}  // namespace
}  // namespace pliant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pliant::kernels {

HWY_EXPORT(is_increasing);

bool is_increasing(std::span<const std::uint32_t> indices) {
  return HWY_DYNAMIC_DISPATCH(is_increasing)(indices);
}

bool scalar::is_increasing(std::span<const std::uint32_t> indices) {
  return std::adjacent_find(indices.begin(), indices.end(), std::greater_equal<>()) ==
         indices.end();
}

}  // namespace pliant::kernels
#endif
