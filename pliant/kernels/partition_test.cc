// SPDX-License-Identifier: MIT
#include "pliant/kernels/partition.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pliant/kernels/magnitude.h"
#include "pliant/kernels/targets.h"
#include "tests/support/nasty_floats.h"

namespace pliant::kernels {
namespace {

RC_GTEST_PROP(Partition, EveryTargetGivesTheBitsOfTheTwin, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kKinds));
  const auto n = *rc::gen::inRange<std::size_t>(0, 300);
  const ShiftedFloats values(kind, n, random() % 17, random);
  std::vector<std::uint32_t> indices(n);
  for (std::uint32_t& index : indices) index = static_cast<std::uint32_t>(random());
  const float low = nasty_float(kind, random), high = nasty_float(kind, random);

  const auto bracketed = [&](auto function) {
    ShiftedFloats copy = values;
    std::vector<float> inside(n);
    const Bracket found = function(copy.span(), low, high, inside);
    return std::pair(found, bits_of(std::span(inside).first(found.inside)));
  };
  const auto split = [&](auto function) {
    ShiftedFloats kept = values;
    std::vector<std::uint32_t> kept_indices = indices, lost_indices(n);
    std::vector<float> lost(n);
    const std::size_t count = function(kept_indices, kept.span(), low, Room{lost_indices, lost});
    kept_indices.resize(count);
    lost_indices.resize(n - count);
    return std::tuple(kept_indices, lost_indices, bits_of(kept.span().first(count)),
                      bits_of(std::span(lost).first(n - count)));
  };
  const auto expected_bracket = bracketed(scalar::bracket);
  const auto expected_split = split(scalar::split_below);
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    RC_ASSERT(bracketed(kernels::bracket) == expected_bracket);
    RC_ASSERT(split(kernels::split_below) == expected_split);
  }
}

}  // namespace
}  // namespace pliant::kernels
