// SPDX-License-Identifier: MIT
#include "pliant/kernels/sparse.h"

#include <gtest/gtest.h>

#include <vector>

namespace pliant::kernels {
namespace {

TEST(Sparse, GatherClearTakesOutAndScatterPutsBack) {
  const std::vector<float> before = {1, -0.0F, 3, 4, 5};
  const std::vector<std::uint32_t> indices = {0, 1, 4};
  std::vector<float> residual = before, values(3);
  gather_clear(residual, indices, values);
  EXPECT_EQ(values, (std::vector<float>{1, -0.0F, 5}));
  EXPECT_EQ(residual, (std::vector<float>{0, 0, 3, 4, 0}));
  scatter(residual, indices, values);
  EXPECT_EQ(residual, before);
  scatter_add(residual, indices, values);
  EXPECT_EQ(residual, (std::vector<float>{2, 0, 3, 4, 10}));
}

TEST(Sparse, FillFromSparseLeavesZerosElsewhere) {
  std::vector<float> dense = {9, 9, 9};
  fill_from_sparse(dense, std::vector<std::uint32_t>{1}, std::vector<float>{2});
  EXPECT_EQ(dense, (std::vector<float>{0, 2, 0}));
  fill_from_sparse(dense, {}, {});
  EXPECT_EQ(dense, (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace pliant::kernels
