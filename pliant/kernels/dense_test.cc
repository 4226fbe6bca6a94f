// SPDX-License-Identifier: MIT
#include "pliant/kernels/dense.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pliant/kernels/targets.h"
#include "tests/support/nasty_floats.h"

namespace pliant::kernels {
namespace {

// NaN payloads may differ between instructions; that there is a NaN may not.
std::vector<std::uint32_t> bits_with_one_nan(std::span<const float> values) {
  std::vector<std::uint32_t> bits = bits_of(values);
  for (std::uint32_t& b : bits) {
    if ((b & 0x7fffffffU) > 0x7f800000U) b = 0x7fc00000U;
  }
  return bits;
}

RC_GTEST_PROP(DenseKernels, EveryTargetGivesTheBitsOfTheTwin, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kKinds));
  const auto n = *rc::gen::inRange<std::size_t>(0, 300);
  const ShiftedFloats to(kind, n, random() % 17, random);
  ShiftedFloats from(kind, n, random() % 17, random);
  const float factor = nasty_float(Kind::kGaussian, random);
  ShiftedFloats added = to, multiplied = to;
  scalar::add(added.span(), from.span());
  scalar::multiply(multiplied.span(), from.span(), factor);
  const double expected = scalar::energy(from.span());
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    ShiftedFloats seen = to;
    add(seen.span(), from.span());
    RC_ASSERT(bits_of(seen.span()) == bits_of(added.span()));
    multiply(seen.span(), from.span(), factor);
    RC_ASSERT(bits_with_one_nan(seen.span()) == bits_with_one_nan(multiplied.span()));
    const double sum = energy(from.span());
    RC_ASSERT(std::isnan(sum) == std::isnan(expected));
    RC_ASSERT(std::isnan(sum) ||
              std::bit_cast<std::uint64_t>(sum) == std::bit_cast<std::uint64_t>(expected));
  }
}

TEST(Energy, OfTheSmallestAndTheLargestNumbersIsExact) {
  const std::vector<float> smallest(3, std::numeric_limits<float>::denorm_min()),
      largest(3, std::numeric_limits<float>::max());
  EXPECT_EQ(energy(smallest), 3 * std::ldexp(1.0, -298));
  EXPECT_EQ(energy(largest), 3 * std::pow(double{std::numeric_limits<float>::max()}, 2));
}

}  // namespace
}  // namespace pliant::kernels
