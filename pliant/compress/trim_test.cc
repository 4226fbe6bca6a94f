// SPDX-License-Identifier: MIT
#include "pliant/compress/trim.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "pliant/kernels/magnitude.h"
#include "tests/support/nasty_floats.h"

namespace pliant::compress {
namespace {

using kernels::Kind;

// Small and large selections: the large ones are cut by scouts. Sorted ones lead the scouts nowhere
// wrong, but close.
RC_GTEST_PROP(FindCut, IsTheMagnitudeOfTheLastKeptEntry, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kernels::kKinds));
  const auto n =
      *rc::gen::weightedOneOf<std::size_t>({{3, rc::gen::inRange<std::size_t>(1, 300)},
                                            {1, rc::gen::inRange<std::size_t>(4'000, 20'000)}});
  const auto keep = *rc::gen::inRange<std::size_t>(1, n + 1);
  std::vector<float> values(n);
  for (float& x : values) {
    x = kernels::nasty_float(kind, random);
    if (!kernels::is_finite(x)) x = 0;
  }
  if (random() % 4 == 0) std::ranges::sort(values);
  std::vector<std::uint32_t> keys;
  for (const float x : values) keys.push_back(kernels::magnitude_bits(x));
  std::ranges::sort(keys, std::greater<>());
  const Cut cut = find_cut(values, keep);
  RC_ASSERT(cut.magnitude_bits == keys[keep - 1]);
  RC_ASSERT(cut.equals == keep - static_cast<std::size_t>(std::ranges::count_if(
                                     keys, [&](auto key) { return key > cut.magnitude_bits; })));
}

TEST(FindCut, IsRightWhereTheScoutsSeeNothing) {
  std::vector<float> values(1 << 16, 1.0F);
  for (std::size_t j = 32; j < values.size(); j += 64)
    values[j] = 2.0F;  // every scout falls on one of these
  EXPECT_EQ(find_cut(values, 5'000).magnitude_bits, kernels::magnitude_bits(1.0F));
  EXPECT_EQ(find_cut(values, 1'000).magnitude_bits, kernels::magnitude_bits(2.0F));
}

TEST(Trim, AmongEqualsTheLowestIndicesStay) {
  Selection selection;
  const kernels::Room room = selection.room(6);
  std::ranges::copy(std::vector<std::uint32_t>{1, 2, 3, 5, 8, 9}, room.indices.begin());
  std::ranges::copy(std::vector<float>{2, -1, 1, 3, 1, 0.5F}, room.values.begin());
  selection.resize(6);
  std::vector<float> residual(10);
  const Cut cut = trim(selection, 4, residual);
  EXPECT_EQ(cut.equals, 2U);
  EXPECT_TRUE(std::ranges::equal(selection.indices(), std::vector<std::uint32_t>{1, 2, 3, 5}));
  EXPECT_TRUE(std::ranges::equal(selection.values(), std::vector<float>{2, -1, 1, 3}));
  EXPECT_EQ(residual, (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 1, 0.5F}));
}

}  // namespace
}  // namespace pliant::compress
