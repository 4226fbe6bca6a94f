// SPDX-License-Identifier: MIT
#include "bench/published/mstopk.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "pliant/compress/residual.h"
#include "tests/support/distributions.h"

namespace pliant::bench {
namespace {

double energy_of(std::span<const float> values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

TEST(MsTopk, KeepsAsManyAsAskedForAndNearlyTheLargest) {
  std::mt19937_64 random(1);
  for (const std::size_t n : {1, 7, 1000, 50'000}) {
    for (const std::size_t keep : {std::size_t{0}, n / 100, n / 10, n}) {
      std::vector<float> gradient(n);
      compress::draw_all(compress::Distribution::kGaussian, 1, random, gradient);
      auto residual = gradient;
      compress::Selection selection;
      mstopk(residual, keep, selection);
      EXPECT_EQ(selection.size(), keep);
      auto sorted = gradient;
      std::ranges::sort(sorted, std::greater<>(), [](float x) { return kernels::magnitude(x); });
      EXPECT_GE(energy_of(selection.values()), 0.999 * energy_of(std::span(sorted).first(keep)));
      compress::put_back(residual, selection);
      EXPECT_EQ(residual, gradient);
    }
  }
}

}  // namespace
}  // namespace pliant::bench
