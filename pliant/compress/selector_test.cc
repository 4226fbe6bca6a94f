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
#include "pliant/compress/data.h"
#include "pliant/compress/residual.h"
#include "pliant/kernels/magnitude.h"
#include "pliant/kernels/nasty.h"

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

std::vector<std::size_t> random_sizes(std::size_t total, std::mt19937_64& random) {
  std::vector<std::size_t> sizes;
  while (total > 0) {
    sizes.push_back(std::min<std::size_t>(total, random() % 1000));
    total -= sizes.back();
  }
  return sizes;
}

// Many steps of gradients from one draw: each in another order, with other signs.
class Gradients {
 public:
  Gradients(Distribution distribution, std::size_t entries, std::mt19937_64& random)
      : drawn_(entries), random_(random) {
    draw_all(distribution, 1, random, drawn_);
  }

  void next(double scale, std::span<float> gradient) {
    const std::size_t shift = random_();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const float x = drawn_[(i * 7919 + shift) % drawn_.size()];
      gradient[i] = static_cast<float>(random_() % 2 != 0 ? scale : -scale) * x;
    }
  }

 private:
  std::vector<float> drawn_;
  std::mt19937_64& random_;
};

RC_GTEST_PROP(ExactSelection, IsTheOracleOnEveryStepWhateverTheDataDo, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto n =
      *rc::gen::weightedOneOf<std::size_t>({{9, rc::gen::inRange<std::size_t>(0, 300)},
                                            {1, rc::gen::inRange<std::size_t>(60'000, 200'000)}});
  Selector selector(Method::kExact, {n});
  std::vector<float> residual(n), gradient(n);
  Selection selection;
  for (int step = 0; step < 4; ++step) {
    const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kernels::kKinds));
    const auto keep = *rc::gen::oneOf(rc::gen::just<std::size_t>(0), rc::gen::just(n),
                                      rc::gen::inRange<std::size_t>(0, n + 1));
    for (float& x : gradient) x = kernels::nasty_float(kind, random);
    selector.aim({{.keep = keep}});
    const auto sums = accumulated_of(residual, gradient);
    const Outcome outcome = selector.select(0, Gradient{gradient}, residual, selection);
    selector.end_step();
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
  Selector selector(Method::kExact, {kEntries});
  selector.aim({{.keep = kKeep}});
  Selection selection;
  const std::vector<float> scales = {1, 1, 1000, 1000, 1e-6F, 0, 0, 1, 1, 1e-30F, 1e-40F, 1e30F, 1};
  for (std::size_t step = 0; step < scales.size(); ++step) {
    std::ranges::fill(residual, 0.0F);
    draw_all(Distribution::kGaussian, scales[step], random, gradient);
    if (step == 4) gradient[77] = 1e30F;  // one huge spike
    const auto sums = accumulated_of(residual, gradient);
    const Outcome outcome = selector.select(0, Gradient{gradient}, residual, selection);
    selector.end_step();
    EXPECT_EQ(indices_of(selection), oracle(sums, kKeep)) << "step " << step;
    EXPECT_TRUE(nothing_is_lost(sums, residual, selection)) << "step " << step;
    EXPECT_LE(outcome.passes, 2) << "step " << step;
    if (step == 1) {
      EXPECT_EQ(outcome.passes, 1);
    }
  }
}

TEST(ExactSelection, TakesOnePassOnSteadyData) {
  constexpr std::size_t kEntries = 300'000;
  std::mt19937_64 random(2);
  std::vector<float> residual(kEntries), gradient(kEntries);
  Selector selector(Method::kExact, {kEntries});
  selector.aim({{.keep = 3'000}});
  Selection selection;
  for (int step = 0; step < 20; ++step) {
    draw_all(Distribution::kLaplace, 1, random, gradient);
    EXPECT_EQ(selector.select(0, Gradient{gradient}, residual, selection).passes, 1)
        << "step " << step;
    selector.end_step();
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
  Selector selector(Method::kExact, {kEntries});
  selector.aim({{.keep = 100}});
  Selection selection;
  selector.select(0, Progress{parameters, reference}, residual, selection);
  EXPECT_EQ(indices_of(selection), oracle(sums, 100));
  EXPECT_TRUE(nothing_is_lost(sums, residual, selection));
  EXPECT_EQ(bits_of(parameters), bits_of(reference));
}

// A step's gradients drift by a few per cent of scale, for better or worse; the residual takes
// part, as in training.
TEST(ApproximateSelection, IsWithinFivePercentFromTheFourthStepOn) {
  for (const Distribution distribution : kDistributions) {
    for (const double drift : {0.97, 1.0, 1.03}) {
      for (const auto& [entries, keep] :
           {std::pair<std::size_t, std::size_t>{500'000, 5'000}, {200'000, 20'000}}) {
        std::mt19937_64 random(4);
        std::vector<float> residual(entries), gradient(entries);
        Gradients gradients(distribution, entries, random);
        Selector selector(Method::kApproximate, {entries});
        selector.aim({{.keep = keep, .quota = 2 * keep}});
        Selection selection;
        for (int step = 1; step <= 12; ++step) {
          gradients.next(std::pow(drift, step), gradient);
          const Outcome outcome = selector.select(0, Gradient{gradient}, residual, selection);
          selector.end_step();
          EXPECT_EQ(outcome.passes, 1);
          if (step <= 3) continue;
          EXPECT_NEAR(static_cast<double>(selection.size()), static_cast<double>(keep),
                      0.05 * static_cast<double>(keep))
              << to_string(distribution) << ", drift " << drift << ", keep " << keep << ", step "
              << step;
        }
      }
    }
  }
}

TEST(ApproximateSelection, IsWithinFivePercentOverBucketsOfDifferentScale) {
  const std::vector<std::size_t> sizes = {200'000, 50'000, 250'000};
  const std::vector<float> scales = {1, 10, 0.3F};
  std::mt19937_64 random(14);
  Selector selector(Method::kApproximate, sizes);
  selector.aim({{2'000, 20'000}, {500, 20'000}, {2'500, 20'000}});
  std::vector<Residual> residuals;
  for (const std::size_t size : sizes) residuals.emplace_back(size);
  std::vector<float> gradient;
  Selection selection;
  for (int step = 1; step <= 12; ++step) {
    std::size_t total = 0;
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      gradient.resize(sizes[b]);
      draw_all(Distribution::kLaplace, scales[b] * static_cast<float>(std::pow(1.03, step)), random,
               gradient);
      selector.select(b, Gradient{gradient}, residuals[b].span(), selection);
      total += selection.size();
    }
    selector.end_step();
    if (step <= 3) continue;
    EXPECT_NEAR(static_cast<double>(total), 5'000, 250) << "step " << step;
  }
}

TEST(ApproximateSelection, HasOneThresholdForAllBucketsAndTrimsToEachQuota) {
  const std::vector<std::size_t> sizes = {100'000, 0, 300'001, 77};
  const std::vector<float> scales = {1, 1, 3, 1};
  std::mt19937_64 random(5);
  Selector selector(Method::kApproximate, sizes);
  selector.aim({{1'000, 1'250}, {0, 0}, {3'000, 3'700}, {1, 10}});
  std::vector<Residual> residuals;
  std::vector<std::vector<float>> gradients;
  for (const std::size_t size : sizes) {
    residuals.emplace_back(size);
    gradients.emplace_back(size);
  }
  Selection selection;
  for (int step = 1; step <= 6; ++step) {
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      draw_all(Distribution::kGaussian, scales[b], random, gradients[b]);
      const auto sums = accumulated_of(residuals[b].span(), gradients[b]);
      const Outcome outcome =
          selector.select(b, Gradient{gradients[b]}, residuals[b].span(), selection);
      EXPECT_LE(selection.size(), b == 2 ? 3'700U : 1'250U);
      EXPECT_TRUE(nothing_is_lost(sums, residuals[b].span(), selection));
      if (b == 2 && step > 1) {
        EXPECT_EQ(selection.size(), 3'700U) << "the larger gradients are here";
      }
      if (b == 2 && step > 1) {
        EXPECT_GT(outcome.trimmed, 0U);
      }
      if (b != 2) continue;
      double best = 0;
      for (const std::uint32_t i : oracle(sums, selection.size()))
        best += double{sums[i]} * double{sums[i]};
      EXPECT_GE(outcome.tally.kept_energy, 0.97 * best)
          << "the largest of the bucket win, step " << step;
    }
    selector.end_step();
  }
}

TEST(ApproximateSelection, SendsNoZeros) {
  std::vector<float> residual(100'000), gradient(100'000);
  Selector selector(Method::kApproximate, {gradient.size()});
  selector.aim({{.keep = 1'000, .quota = 1'250}});
  Selection selection;
  for (int step = 0; step < 3; ++step) {
    selector.select(0, Gradient{gradient}, residual, selection);
    selector.end_step();
    EXPECT_TRUE(selection.empty());
  }
}

RC_GTEST_PROP(LayerwiseSelection, IsTheOracleOfEachLayer, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto n = *rc::gen::inRange<std::size_t>(0, 5'000);
  const auto layers = random_sizes(n, random);
  Selector selector(Method::kLayerwise, {n}, {layers});
  const auto keep = *rc::gen::inRange<std::size_t>(0, n + 1);
  selector.aim({{.keep = keep}});
  std::vector<float> residual(n), gradient(n);
  Selection selection;
  for (int step = 0; step < 2; ++step) {
    for (float& x : gradient) x = kernels::nasty_float(Kind::kGaussian, random);
    const auto sums = accumulated_of(residual, gradient);
    selector.select(0, Gradient{gradient}, residual, selection);
    selector.end_step();
    std::vector<std::uint32_t> expected;
    std::uint32_t first = 0;
    for (const std::size_t size : layers) {
      const auto share = static_cast<std::size_t>(
          static_cast<double>(keep) / static_cast<double>(n) * static_cast<double>(size));
      const std::size_t of_layer = keep == 0 ? 0 : std::min(std::max<std::size_t>(share, 1), size);
      const auto part = oracle(std::span(sums).subspan(first, size), of_layer, first);
      expected.insert(expected.end(), part.begin(), part.end());
      first += static_cast<std::uint32_t>(size);
    }
    RC_ASSERT(indices_of(selection) == expected);
    RC_ASSERT(nothing_is_lost(sums, residual, selection));
  }
}

RC_GTEST_PROP(MsTopkSelection, KeepsExactlyAsManyAndNearlyTheLargest, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto n = *rc::gen::inRange<std::size_t>(1, 5'000);
  const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kernels::kKinds));
  const auto keep = *rc::gen::inRange<std::size_t>(0, n + 1);
  Selector selector(Method::kMsTopk, {n});
  selector.aim({{.keep = keep}});
  std::vector<float> residual(n), gradient(n);
  for (float& x : gradient) x = kernels::nasty_float(kind, random);
  const auto sums = accumulated_of(residual, gradient);
  Selection selection;
  const Outcome outcome = selector.select(0, Gradient{gradient}, residual, selection);
  RC_ASSERT(selection.size() == keep);
  RC_ASSERT(nothing_is_lost(sums, residual, selection));
  RC_ASSERT(outcome.passes == (keep == 0 ? 1 : 28));
  if (kind != Kind::kGaussian || keep > n / 10) return;
  double best = 0;
  for (const std::uint32_t i : oracle(sums, keep)) best += double{sums[i]} * double{sums[i]};
  RC_ASSERT(outcome.tally.kept_energy >= 0.999 * best);
}

TEST(Selector, GoesOnFromASavedStateBitForBit) {
  for (const Method method : {Method::kExact, Method::kApproximate}) {
    constexpr std::size_t kEntries = 200'000;
    std::mt19937_64 random(6);
    std::vector<float> residual(kEntries), gradient(kEntries);
    Selector selector(method, {kEntries}), resumed(method, {kEntries});
    selector.aim({{.keep = 2'000, .quota = 2'100}});
    resumed.aim({{.keep = 2'000, .quota = 2'100}});
    Selection selection, again;
    for (int step = 0; step < 6; ++step) {
      draw_all(Distribution::kGaussian, 1, random, gradient);
      auto residual_again = residual;
      resumed.restore(selector.state());
      selector.select(0, Gradient{gradient}, residual, selection);
      selector.end_step();
      resumed.select(0, Gradient{gradient}, residual_again, again);
      resumed.end_step();
      EXPECT_EQ(indices_of(selection), indices_of(again));
      EXPECT_EQ(bits_of(residual), bits_of(residual_again));
      EXPECT_EQ(selector.state(), resumed.state());
    }
  }
}

TEST(Selector, AllocatesNothingOnceWarm) {
  for (const Method method : {Method::kExact, Method::kApproximate, Method::kMsTopk}) {
    constexpr std::size_t kEntries = 300'000;
    std::mt19937_64 random(7);
    std::vector<float> residual(kEntries), gradient(kEntries);
    Selector selector(method, {kEntries});
    selector.aim({{.keep = 3'000, .quota = 3'150}});
    Selection selection;
    std::size_t before = 0;
    for (int step = 0; step < 12; ++step) {
      draw_all(Distribution::kGaussian, 1, random, gradient);
      if (step == 6) before = allocations;
      selector.select(0, Gradient{gradient}, residual, selection);
      selector.end_step();
    }
    EXPECT_EQ(allocations, before);
  }
}

TEST(Selector, AFollowersSampleGivesItAThresholdForItsTurnToLead) {
  constexpr std::size_t kEntries = 300'000;
  std::mt19937_64 random(8);
  for (const Method method : {Method::kExact, Method::kApproximate}) {
    std::vector<float> residual(kEntries), gradient(kEntries);
    Selector selector(method, {kEntries});
    selector.aim({{.keep = 3'000, .quota = 4'000}});
    draw_all(Distribution::kGaussian, 1, random, gradient);
    EXPECT_GT(selector.accumulate(0, Gradient{gradient}, residual).tally.sampled, 10'000U);
    selector.end_step();
    Selection selection;
    std::ranges::fill(residual, 0.0F);
    EXPECT_EQ(selector.select(0, Gradient{gradient}, residual, selection).passes, 1);
    EXPECT_NEAR(static_cast<double>(selection.size()), 3'000, method == Method::kExact ? 0 : 600);
  }
}

TEST(Selector, NamesBothNumbersWhenSizesDisagree) {
  Selector selector(Method::kExact, {10});
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
  Selector selector(Method::kExact, {n});
  selector.aim({{.keep = *rc::gen::inRange<std::size_t>(0, n + 1)}});
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
