// SPDX-License-Identifier: MIT
#include "pliant/kernels/dense.h"

#include <array>
#include <cstddef>
#include <limits>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pliant/kernels/dense.cc"
#include <hwy/foreach_target.h>  // compiles what follows once per target
#include <hwy/highway.h>

#include "pliant/kernels/ahead-inl.h"
#include "pliant/kernels/energy-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pliant::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR  // without SIMD the twin is the kernel

using scalar::add;
using scalar::energy;
using scalar::multiply;

#else

HWY_ATTR void add(std::span<float> to, std::span<const float> from) {
  const Floats d;
  const auto nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  std::size_t i = 0;
  for (; i + kLanes <= to.size(); i += kLanes) {
    const auto sum = hn::Add(hn::LoadU(d, to.data() + i), hn::LoadU(d, from.data() + i));
    hn::StoreU(hn::IfThenElse(hn::IsNaN(sum), nan, sum), d, to.data() + i);
  }
  scalar::add(to.subspan(i), from.subspan(i));
}

// One array that is read and written: more pages at a time than the passes of select.cc, which have
// two or three.
using Lines = Ahead<16>;

HWY_ATTR void multiply(std::span<float> to, std::span<const float> from, float factor) {
  const Floats d;
  const auto factors = hn::Set(d, factor);
  const bool in_place = to.data() == from.data();
  std::size_t i = 0;
  for (; i + kGroup <= to.size(); i += kGroup) {
    std::size_t ahead = Lines::of(i);
    for (std::size_t line = 0; line < kGroup; line += kLine, ahead += Lines::kTurn) {
      prefetch_to_write(to.data() + ahead);
      if (!in_place) hwy::Prefetch(from.data() + ahead);
    }
    for (std::size_t v = i; v < i + kGroup; v += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(d, from.data() + v), factors), d, to.data() + v);
  }
  for (; i + kLanes <= to.size(); i += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, from.data() + i), factors), d, to.data() + i);
  for (; i < to.size(); ++i) to[i] = from[i] * factor;
}

HWY_ATTR double energy(std::span<const float> values) {
  const std::size_t whole = values.size() / kEnergyLanes * kEnergyLanes;
  Energy sum;
  sum.add_groups(values.data(), whole);
  return sum.total(values.data() + whole, values.size() - whole);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace pliant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pliant::kernels {

HWY_EXPORT(add);
HWY_EXPORT(multiply);
HWY_EXPORT(energy);

void add(std::span<float> to, std::span<const float> from) { HWY_DYNAMIC_DISPATCH(add)(to, from); }

void multiply(std::span<float> to, std::span<const float> from, float factor) {
  HWY_DYNAMIC_DISPATCH(multiply)(to, from, factor);
}

double energy(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(energy)(values); }

namespace scalar {

void add(std::span<float> to, std::span<const float> from) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const float sum = to[i] + from[i];
    to[i] = sum == sum ? sum : std::numeric_limits<float>::quiet_NaN();
  }
}

void multiply(std::span<float> to, std::span<const float> from, float factor) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] * factor;
}

double energy(std::span<const float> values) {
  std::array<double, kEnergyLanes> lanes{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double wide = values[i];
    lanes[i % kEnergyLanes] += wide * wide;
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

}  // namespace scalar
}  // namespace pliant::kernels
#endif  // HWY_ONCE
