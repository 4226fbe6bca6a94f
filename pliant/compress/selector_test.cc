// SPDX-License-Identifier: MIT
#include "pliant/compress/selector.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <new>
#include <numeric>

#include "pliant/common/errors.h"
#include "pliant/compress/residual.h"
#include "pliant/kernels/magnitude.h"
#include "tests/support/distributions.h"
#include "tests/support/nasty_floats.h"

namespace {
std::size_t allocations = 0;
}
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace pliant::compress {
namespace {

using kernels::accumulated;
using kernels::bits_of;
using kernels::Kind;
using kernels::magnitude_bits;

// The `keep` largest by sorting: bits of the magnitude, then lower index.
std::vector<std::uint32_t> oracle(std::span<const float> values, std::size_t keep,
                                  std::uint32_t first = 0) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto larger = [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(~magnitude_bits(values[a]), a) < std::pair(~magnitude_bits(values[b]), b);
  };
  std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(keep), larger);
  order.resize(keep);
  std::ranges::sort(order);
  for (std::uint32_t& index : order) index += first;
  return order;
}

std::vector<float> accumulated_of(std::span<const float> residual,
                                  std::span<const float> gradient) {
  std::vector<float> sums(residual.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = accumulated(residual[i], gradient[i]);
  return sums;
}

std::vector<std::uint32_t> indices_of(const Selection& selection) {
  return {selection.indices().begin(), selection.indices().end()};
}

// Kept values and new residual are accumulated, bit for bit.
bool nothing_is_lost(std::span<const float> sums, std::span<const float> residual,
                     const Selection& selection) {
  std::vector<float> together(residual.begin(), residual.end());
  for (std::size_t j = 0; j < selection.size(); ++j) {
    float& place = together[selection.indices()[j]];
    if (std::bit_cast<std::uint32_t>(place) != 0) return false;
    place = selection.values()[j];
  }
  return bits_of(together) == bits_of(sums);
}

RC_GTEST_PROP(ExactSelection, IsTheOracleInEveryRoundWhateverTheDataDo, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto n =
      *rc::gen::weightedOneOf<std::size_t>({{9, rc::gen::inRange<std::size_t>(0, 300)},
                                            {1, rc::gen::inRange<std::size_t>(60'000, 200'000)}});
  Selector selector({n});
  std::vector<float> residual(n), gradient(n);
  Selection selection;
  for (int round = 0; round < 4; ++round) {
    const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kernels::kKinds));
    const auto keep = *rc::gen::oneOf(rc::gen::just<std::size_t>(0), rc::gen::just(n),
                                      rc::gen::inRange<std::size_t>(0, n + 1));
    for (float& x : gradient) x = kernels::nasty_float(kind, random);
    selector.aim({keep});
    const auto sums = accumulated_of(residual, gradient);
    const Outcome outcome = selector.select(0, Gradient{gradient}, residual, selection);
    selector.end_round();
    RC_ASSERT(indices_of(selection) == oracle(sums, keep));
    RC_ASSERT(nothing_is_lost(sums, residual, selection));
    RC_ASSERT(outcome.passes <= 2);
    RC_ASSERT(outcome.tally.kept == keep);
    RC_ASSERT(std::ranges::all_of(residual, kernels::is_finite));
  }
}

TEST(ExactSelection, SurvivesSuddenChangesOfScaleInAtMostTwoPasses) {
  constexpr std::size_t kEntries = 300'000, kKeep = 3'000;
  std::mt19937_64 random(1);
  std::vector<float> residual(kEntries), gradient(kEntries);
  Selector selector({kEntries});
  selector.aim({kKeep});
  Selection selection;
  const std::vector<float> scales = {1, 1, 1000, 1000, 1e-6F, 0, 0, 1, 1, 1e-30F, 1e-40F, 1e30F, 1};
  for (std::size_t round = 0; round < scales.size(); ++round) {
    std::ranges::fill(residual, 0.0F);
    draw_all(Distribution::kGaussian, scales[round], random, gradient);
    if (round == 4) gradient[77] = 1e30F;  // one huge spike
    const auto sums = accumulated_of(residual, gradient);
    const Outcome outcome = selector.select(0, Gradient{gradient}, residual, selection);
    selector.end_round();
    EXPECT_EQ(indices_of(selection), oracle(sums, kKeep)) << "round " << round;
    EXPECT_TRUE(nothing_is_lost(sums, residual, selection)) << "round " << round;
    EXPECT_LE(outcome.passes, 2) << "round " << round;
    if (round == 1) {
      EXPECT_EQ(outcome.passes, 1);
    }
  }
}

TEST(ExactSelection, TakesOnePassOnSteadyData) {
  constexpr std::size_t kEntries = 300'000;
  std::mt19937_64 random(2);
  std::vector<float> residual(kEntries), gradient(kEntries);
  Selector selector({kEntries});
  selector.aim({3'000});
  Selection selection;
  for (int round = 0; round < 20; ++round) {
    draw_all(Distribution::kLaplace, 1, random, gradient);
    EXPECT_EQ(selector.select(0, Gradient{gradient}, residual, selection).passes, 1)
        << "round " << round;
    selector.end_round();
  }
}

TEST(ExactSelection, OfProgressReturnsParametersToTheReference) {
  constexpr std::size_t kEntries = 10'000;
  std::mt19937_64 random(3);
  std::vector<float> residual(kEntries), parameters(kEntries), reference(kEntries),
      progress(kEntries);
  draw_all(Distribution::kGaussian, 1, random, parameters);
  draw_all(Distribution::kGaussian, 1, random, reference);
  for (std::size_t i = 0; i < kEntries; ++i) progress[i] = parameters[i] - reference[i];
  const auto sums = accumulated_of(residual, progress);
  Selector selector({kEntries});
  selector.aim({100});
  Selection selection;
  selector.select(0, Progress{parameters, reference}, residual, selection);
  EXPECT_EQ(indices_of(selection), oracle(sums, 100));
  EXPECT_TRUE(nothing_is_lost(sums, residual, selection));
  EXPECT_EQ(bits_of(parameters), bits_of(reference));
}

TEST(Selector, AllocatesNothingOnceWarm) {
  constexpr std::size_t kEntries = 300'000;
  std::mt19937_64 random(7);
  std::vector<float> residual(kEntries), gradient(kEntries);
  Selector selector({kEntries});
  selector.aim({3'000});
  Selection selection;
  std::size_t before = 0;
  for (int round = 0; round < 12; ++round) {
    draw_all(Distribution::kGaussian, 1, random, gradient);
    if (round == 6) before = allocations;
    selector.select(0, Gradient{gradient}, residual, selection);
    selector.end_round();
  }
  EXPECT_EQ(allocations, before);
}

TEST(Selector, AFollowersSampleGivesItAThresholdForItsTurnToLead) {
  constexpr std::size_t kEntries = 300'000;
  std::mt19937_64 random(8);
  std::vector<float> residual(kEntries), gradient(kEntries);
  Selector selector({kEntries});
  selector.aim({3'000});
  draw_all(Distribution::kGaussian, 1, random, gradient);
  EXPECT_GT(selector.accumulate(0, Gradient{gradient}, residual).tally.sampled, 10'000U);
  selector.end_round();
  Selection selection;
  std::ranges::fill(residual, 0.0F);
  EXPECT_EQ(selector.select(0, Gradient{gradient}, residual, selection).passes, 1);
  EXPECT_EQ(selection.size(), 3'000U);
}

TEST(Selector, NamesBothNumbersWhenSizesDisagree) {
  Selector selector({10});
  std::vector<float> residual(9), gradient(10);
  Selection selection;
  try {
    selector.select(0, Gradient{gradient}, residual, selection);
    FAIL();
  } catch (const ContractError& error) {
    EXPECT_STREQ(error.what(),
                 "a contribution of 10 and a residual of 9 entries for bucket 0 of 10");
  }
}

RC_GTEST_PROP(PutBack, UndoesASelectionBitForBit, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto n = *rc::gen::inRange<std::size_t>(0, 300);
  const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kernels::kKinds));
  std::vector<float> residual(n), gradient(n);
  for (float& x : gradient) x = kernels::nasty_float(kind, random);
  const auto sums = accumulated_of(residual, gradient);
  Selector selector({n});
  selector.aim({*rc::gen::inRange<std::size_t>(0, n + 1)});
  Selection selection;
  selector.select(0, Gradient{gradient}, residual, selection);
  put_back(residual, selection);
  RC_ASSERT(bits_of(residual) == bits_of(sums));
}

TEST(PutBack, AddsWhereSomethingHasComeSinceAndStaysFinite) {
  const float largest = std::numeric_limits<float>::max();
  std::vector<float> residual = {1, 0, largest};
  put_back(residual, std::vector<std::uint32_t>{0, 1, 2}, std::vector<float>{2, 3, largest});
  EXPECT_EQ(residual, (std::vector<float>{3, 3, largest}));
}

}  // namespace
}  // namespace pliant::compress
