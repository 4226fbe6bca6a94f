// SPDX-License-Identifier: MIT
#include "pliant/observe/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pliant::observe {
namespace {

std::vector<std::optional<Record>> records() {
  std::vector<std::optional<Record>> all;
  for (std::uint16_t r = 0; r < 3; ++r) {
    all.push_back(Record{.plan_hash = 7,
                         .step = 5,
                         .epoch = 2,
                         .rank = r,
                         .wire = 0.5F - 0.125F * static_cast<float>(r),
                         .control = 0.25F,
                         .compute = 1.0F + static_cast<float>(r),
                         .energy = 4,
                         .energy_sent = 1,
                         .energy_residual = 3});
  }
  return all;
}

TEST(Record, TheLastToEnterTimesTheWireAndTheSlowestTheCompute) {
  const Read got = read(records(), 5, 2, 7);
  ASSERT_TRUE(got.summary) << got.complaint;
  EXPECT_EQ(got.summary->wire.value, 0.25);
  EXPECT_EQ(got.summary->compute.value, 3);
  EXPECT_EQ(got.summary->gain, 0.25);
  EXPECT_NEAR(got.summary->residual_norm, std::sqrt(0.75), 1e-12);
}

TEST(Record, WhatIsWrongIsNamed) {
  const auto complaint = [](auto spoil) {
    auto all = records();
    spoil(all);
    const Read got = read(all, 5, 2, 7);
    EXPECT_FALSE(got.summary);
    return got.complaint;
  };
  EXPECT_EQ(complaint([](auto& all) { all[1].reset(); }), "step 5: rank 1's record is missing");
  EXPECT_EQ(complaint([](auto& all) { all[2]->step = 4; }), "step 5: rank 2's record is late: it is of step 4");
  EXPECT_EQ(complaint([](auto& all) { all[2]->step = 6; }), "step 5: rank 2's record is of a later step, 6");
  EXPECT_EQ(complaint([](auto& all) { all[0]->epoch = 3; }), "step 5: rank 0 is in plan epoch 3, not 2");
  EXPECT_EQ(complaint([](auto& all) { all[0]->plan_hash = 8; }), "step 5: rank 0 runs another plan");
  EXPECT_EQ(complaint([](auto& all) { all[1]->rank = 2; }), "step 5: rank 1's record says rank 2");
  EXPECT_EQ(complaint([](auto& all) { all[1]->compute = -1; }), "step 5: rank 1's compute of -1 was ignored");
  EXPECT_EQ(complaint([](auto& all) { all[1]->wire = std::nanf(""); }), "step 5: rank 1's wire of nan was ignored");
}

}  // namespace
}  // namespace pliant::observe
