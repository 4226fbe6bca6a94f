// SPDX-License-Identifier: MIT
#include "pliant/engine/units.h"

#include <gtest/gtest.h>

#include <numeric>

#include "pliant/common/errors.h"

namespace pliant::engine {
namespace {

TEST(Arrangement, PlacesParametersUnitByUnit) {
  const Arrangement arrangement({10, 20, 30, 40}, {{3, 1}, {0}, {2}});
  EXPECT_EQ(arrangement.size(), 100U);
  EXPECT_EQ(arrangement.place(3), (Range{0, 40}));
  EXPECT_EQ(arrangement.place(1), (Range{40, 20}));
  EXPECT_EQ(arrangement.place(0), (Range{60, 10}));
  EXPECT_EQ(arrangement.place(2), (Range{70, 30}));
}

TEST(Arrangement, GroupsCoverAllUnitsInOrder) {
  const Arrangement arrangement({10, 20, 30, 40}, {{3}, {2}, {1}, {0}});
  for (const auto fusion : plan::kFusions) {
    std::size_t next = 0;
    for (const Range& group : arrangement.groups(fusion)) {
      EXPECT_EQ(group.begin, next);
      next = group.end();
    }
    EXPECT_EQ(next, 4U);
  }
  EXPECT_EQ(arrangement.groups(plan::Fusion::kTwo).front(), (Range{0, 1}))
      << "40 and 60 are nearer to halves than 70 and 30";
  EXPECT_EQ(arrangement.groups(plan::Fusion::kAll).size(), 1U);
}

TEST(Arrangement, RefusesUnitsThatAreNotTheModel) {
  EXPECT_THROW(Arrangement({1, 2}, {{0}}), ContractError);
  EXPECT_THROW(Arrangement({1, 2}, {{0}, {0, 1}}), ContractError);
  EXPECT_THROW(Arrangement({1, 2}, {{0, 1, 2}}), ContractError);
}

TEST(DefaultUnits, HoldEveryParameterOnceLastFirst) {
  const std::vector<std::size_t> sizes(40, 1'000'000);
  const Arrangement arrangement(sizes, default_units(sizes));
  EXPECT_EQ(arrangement.units().front().front(), 39);
  EXPECT_EQ(arrangement.units().size(), 6U)
      << "25 MiB are 6.55 million floats: seven parameters each";
}

TEST(Rearrange, MovesEveryParameterAndBack) {
  const Arrangement one({3, 2, 4}, {{0, 1, 2}});
  const Arrangement other({3, 2, 4}, {{2}, {0, 1}});
  std::vector<float> entries(9);
  std::iota(entries.begin(), entries.end(), 0.0F);
  const auto before = entries;
  rearrange(one, other, entries);
  EXPECT_EQ(entries, (std::vector<float>{5, 6, 7, 8, 0, 1, 2, 3, 4}));
  rearrange(other, one, entries);
  EXPECT_EQ(entries, before);
}

}  // namespace
}  // namespace pliant::engine
