// SPDX-License-Identifier: MIT
#include "pliant/agree/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace pliant::agree {
namespace {

using ::testing::HasSubstr;

std::vector<Record> alike(int ranks) {
  return std::vector<Record>(static_cast<std::size_t>(ranks), {.epoch = 3, .step = 7, .plan = 9});
}

TEST(OnTheWire, IsOfTheRankThatEnteredEachExchangeLast) {
  const std::array records = {Record{.wire = {3, 1}}, Record{.wire = {1, 4}},
                              Record{.wire = {2, 2}}};
  EXPECT_EQ(on_the_wire(records), 2);
}

TEST(OnTheWire, IsOfTheSlowestPart) {
  const std::array records = {Record{.part = 0, .wire = {3}}, Record{.part = 1, .wire = {9}},
                              Record{.part = 0, .wire = {2}}, Record{.part = 1, .wire = {5}}};
  EXPECT_EQ(on_the_wire(records), 5);
}

TEST(Disagreement, ComparesResultsWithinAPart) {
  auto records = alike(4);
  for (std::size_t r = 0; r < 4; ++r) {
    records[r].part = static_cast<std::uint16_t>(r % 2);
    records[r].flags = kAppliedHashed;
    records[r].applied = static_cast<std::uint32_t>(5 + r % 2);
  }
  EXPECT_EQ(disagreement(records), std::nullopt);
  records[3].applied = 9;
  EXPECT_THAT(disagreement(records).value_or(""), HasSubstr("rank 3 differs from rank 1"));
}

TEST(Disagreement, IsNoneWhereOnlyTimesDiffer) {
  auto records = alike(4);
  records[2].whole = 1;
  records[1].wire[0] = 5;
  EXPECT_EQ(disagreement(records), std::nullopt);
}

TEST(Disagreement, NamesTheOddRankOut) {
  auto records = alike(4);
  records[2].plan = 10;
  EXPECT_THAT(disagreement(records).value_or(""),
              HasSubstr("rank 2 differs from the others in its plan"));
  records = alike(4);
  records[0].epoch = 4;
  EXPECT_THAT(disagreement(records).value_or(""),
              HasSubstr("rank 0 differs from the others in its plan version (4, not 3)"));
}

TEST(Disagreement, OfTwoRanksSaysThatNobodyKnowsWhoIsRight) {
  auto records = alike(2);
  records[1].step = 8;
  EXPECT_THAT(disagreement(records).value_or(""), HasSubstr("it is not known which rank is right"));
}

TEST(Disagreement, ComparesWhatWasAppliedOnlyWhereItWasHashed) {
  auto records = alike(3);
  records[1].applied = 5;
  EXPECT_EQ(disagreement(records), std::nullopt);
  for (Record& record : records) record.flags = kAppliedHashed;
  EXPECT_THAT(disagreement(records).value_or(""),
              HasSubstr("rank 1 differs from the others in its hash of what was applied"));
}

}  // namespace
}  // namespace pliant::agree
