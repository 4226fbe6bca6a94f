// SPDX-License-Identifier: MIT
// Sums of squares in 16 double lanes, whatever the vector width. Included once per target (hence no
// #pragma once).
#if defined(PLIANT_KERNELS_ENERGY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIANT_KERNELS_ENERGY_INL_H_
#undef PLIANT_KERNELS_ENERGY_INL_H_
#else
#define PLIANT_KERNELS_ENERGY_INL_H_
#endif

#include <hwy/highway.h>

#include "pliant/kernels/select.h"

#if HWY_TARGET != HWY_SCALAR  // where the twins are used
HWY_BEFORE_NAMESPACE();
namespace pliant::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kEnergyLanes>;
using HalfFloats = hn::Half<Floats>;
using Doubles = hn::RepartitionToWide<Floats>;
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kEnergyVectors = kEnergyLanes / hn::MaxLanes(Doubles());

// A float squared is exact in double, so a fused multiply-add rounds exactly where multiply, then
// add, does.
class Energy {
 public:
  using DoubleVector = hn::Vec<Doubles>;

  HWY_ATTR Energy() {
    for (auto& lane : sums_) lane = hn::Zero(Doubles());
  }

  // `slot`: position of x's first lane among the 16, a multiple of kLanes; a constant after
  // unrolling.
  HWY_ATTR HWY_INLINE void add(std::size_t slot, hn::Vec<Floats> x) {
    const std::size_t first = slot / hn::MaxLanes(Doubles());
    const auto low = hn::PromoteTo(Doubles(), hn::LowerHalf(HalfFloats(), x));
    const auto high = hn::PromoteTo(Doubles(), hn::UpperHalf(HalfFloats(), x));
    sums_[first] = hn::MulAdd(low, low, sums_[first]);
    sums_[first + 1] = hn::MulAdd(high, high, sums_[first + 1]);
  }

  // Whole groups of 16 floats.
  HWY_ATTR HWY_INLINE void add_groups(const float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; i += kEnergyLanes) {
      for (std::size_t slot = 0; slot < kEnergyLanes; slot += kLanes)
        add(slot, hn::LoadU(Floats(), values + i + slot));
    }
  }

  // The last, incomplete group, entry by entry, then the total.
  HWY_ATTR double total(const float* tail, std::size_t count) const {
    HWY_ALIGN double lanes[kEnergyLanes];
    for (std::size_t v = 0; v < kEnergyVectors; ++v)
      hn::Store(sums_[v], Doubles(), lanes + v * hn::MaxLanes(Doubles()));
    for (std::size_t i = 0; i < count; ++i)
      lanes[i] += static_cast<double>(tail[i]) * static_cast<double>(tail[i]);
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    return sum;
  }

 private:
  DoubleVector sums_[kEnergyVectors];
};

}  // namespace pliant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // PLIANT_KERNELS_ENERGY_INL_H_
