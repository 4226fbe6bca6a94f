// SPDX-License-Identifier: MIT
#include "pliant/kernels/select.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "pliant/kernels/magnitude.h"
#include "pliant/kernels/targets.h"
#include "tests/support/nasty_floats.h"

namespace pliant::kernels {
namespace {

enum class Pass { kAccumulateSelect, kProgressSelect, kSelect, kAccumulate, kProgressAccumulate };
constexpr int kPasses = 5;

// Everything a pass may read or write.
struct Scene {
  Pass pass = Pass::kAccumulateSelect;
  ShiftedFloats contribution, reference, residual;
  Criterion criterion;
  Sampling sampling;
  std::vector<std::uint32_t> indices;
  std::vector<float> values, sample;
  Tally tally;

  Scene(Pass which, Kind kind, std::size_t n, std::mt19937_64& random)
      : pass(which),
        contribution(kind, n, random() % 17, random),
        reference(kind, n, random() % 17, random),
        residual(kind, n, random() % 17, random),
        indices(n, 0xdeadbeef),
        values(n, -1) {
    for (float& x : residual.span()) {
      if (!is_finite(x) && random() % 8 != 0)
        x = 1;  // no pass leaves one behind, but a caller might
    }
    criterion.threshold = random() % 8 == 0 ? 0 : magnitude(nasty_float(kind, random));
    criterion.expected_density = random() % 2 == 0 ? 0.001F : 0.5F;
    criterion.first_index = static_cast<std::uint32_t>(random() % 1000);
    sampling.period = 1U << (random() % 9);
    sampling.first_group = random() % 1000;
    if (random() % 4 != 0) sample.assign(sample_room(n, sampling.period), -1);
  }

  template <typename Functions>
  void run(const Functions& f) {
    const Room out{indices, values};
    sampling.magnitudes = sample;
    switch (pass) {
      case Pass::kAccumulateSelect:
        tally = f.accumulate_select(contribution.span(), residual.span(), criterion, out, sampling);
        break;
      case Pass::kProgressSelect:
        tally = f.progress_select(contribution.span(), reference.span(), residual.span(), criterion,
                                  out, sampling);
        break;
      case Pass::kSelect:
        tally = f.select(residual.span(), criterion, out, sampling);
        break;
      case Pass::kAccumulate:
        tally = f.accumulate(contribution.span(), residual.span(), sampling);
        break;
      case Pass::kProgressAccumulate:
        tally =
            f.progress_accumulate(contribution.span(), reference.span(), residual.span(), sampling);
        break;
    }
    indices.resize(tally.kept);  // what lies beyond is scratch
    values.resize(tally.kept);
    sample.resize(tally.sampled);
  }
};

struct Functions {
  decltype(&kernels::accumulate_select) accumulate_select;
  decltype(&kernels::progress_select) progress_select;
  decltype(&kernels::select) select;
  decltype(&kernels::accumulate) accumulate;
  decltype(&kernels::progress_accumulate) progress_accumulate;
};
constexpr Functions kDispatched = {accumulate_select, progress_select, select, accumulate,
                                   progress_accumulate};
constexpr Functions kScalar = {scalar::accumulate_select, scalar::progress_select, scalar::select,
                               scalar::accumulate, scalar::progress_accumulate};

Scene random_scene() {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto pass = static_cast<Pass>(*rc::gen::inRange(0, kPasses));
  const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kKinds));
  const auto n =
      *rc::gen::weightedOneOf<std::size_t>({{3, rc::gen::inRange<std::size_t>(0, 300)},
                                            {1, rc::gen::inRange<std::size_t>(0, 3 * kBlock)}});
  return Scene(pass, kind, n, random);
}

RC_GTEST_PROP(SelectPasses, EveryTargetGivesTheBitsOfTheTwin, ()) {
  const Scene scene = random_scene();
  Scene expected = scene;
  expected.run(kScalar);
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    Scene seen = scene;
    seen.run(kDispatched);
    RC_TAG(target.name);
    RC_ASSERT(seen.tally == expected.tally);
    RC_ASSERT(seen.indices == expected.indices);
    RC_ASSERT(bits_of(seen.values) == bits_of(expected.values));
    RC_ASSERT(bits_of(seen.sample) == bits_of(expected.sample));
    RC_ASSERT(bits_of(seen.residual.span()) == bits_of(expected.residual.span()));
    RC_ASSERT(bits_of(seen.contribution.span()) == bits_of(expected.contribution.span()));
  }
}

RC_GTEST_PROP(SelectPasses, KeptAndResidualTogetherAreContributionAndOldResidual, ()) {
  Scene scene = random_scene();
  Scene before = scene;
  scene.run(kDispatched);
  const bool selects = scene.pass != Pass::kAccumulate && scene.pass != Pass::kProgressAccumulate;
  std::size_t j = 0;
  for (std::size_t i = 0; i < before.residual.span().size(); ++i) {
    const float given = before.contribution.span()[i];
    const float progress = given - before.reference.span()[i];
    const bool from_gradient =
        scene.pass == Pass::kAccumulateSelect || scene.pass == Pass::kAccumulate;
    const float contribution = scene.pass == Pass::kSelect ? -0.0F
                               : from_gradient             ? given
                                                           : progress;
    const float x = accumulated(before.residual.span()[i], contribution);
    const float left = scene.residual.span()[i];
    RC_ASSERT(is_finite(left));
    if (selects && magnitude(x) >= scene.criterion.threshold) {
      RC_ASSERT(scene.indices.at(j) == scene.criterion.first_index + i);
      RC_ASSERT(bits_of({&scene.values[j++], 1}) == bits_of({&x, 1}));
      RC_ASSERT(std::bit_cast<std::uint32_t>(left) == 0U);
    } else {
      RC_ASSERT(bits_of({&left, 1}) == bits_of({&x, 1}));
    }
  }
  RC_ASSERT(j == scene.tally.kept);
}

TEST(SelectPasses, AnOverflowOfTwoFiniteNumbersLeavesTheResidualAndIsCounted) {
  const float largest = std::numeric_limits<float>::max();
  std::vector<float> residual(100, 0.75F * largest), gradient(100, 1.0F);
  gradient[7] = largest;
  gradient[93] = std::numeric_limits<float>::quiet_NaN();
  const Tally tally = accumulate(gradient, residual);
  EXPECT_EQ(tally.non_finite, 2U);
  EXPECT_EQ(residual[7], 0.75F * largest);
  EXPECT_EQ(residual[93], 0.75F * largest);
  EXPECT_TRUE(std::isfinite(tally.energy));
}

TEST(SelectPasses, TheSampleIsOnePerPeriodAndSeesKeptEntries) {
  std::vector<float> gradient(1 << 16, 2.0F), residual(gradient.size(), 1.0F),
      values(gradient.size()), sample(256);
  std::vector<std::uint32_t> indices(gradient.size());
  const Tally tally = accumulate_select(gradient, residual, {.threshold = 1}, {indices, values},
                                        {.magnitudes = sample});
  EXPECT_EQ(tally.sampled, 256U);
  EXPECT_EQ(std::ranges::count(sample, 3.0F), 256);
}

TEST(SampledEntry, VisitsAllPlacesAlike) {
  std::vector<int> visits(256);
  for (std::uint64_t group = 0; group < 25'600; ++group) ++visits[sampled_entry(group, 256)];
  EXPECT_GE(*std::ranges::min_element(visits), 90);
  EXPECT_LE(*std::ranges::max_element(visits), 110);
}

}  // namespace
}  // namespace pliant::kernels
