// SPDX-License-Identifier: MIT
#include "pliant/kernels/int2.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace pliant::kernels {
namespace {

using Floats = std::vector<float>;

struct Encoded {
  Int2Levels levels;
  std::vector<std::byte> bytes;
  Floats decoded;
  Floats differences;
};

Encoded encode(const Floats& values) {
  Encoded result{int2_levels(values), std::vector<std::byte>((values.size() + 3) / 4), values,
                 Floats(values.size())};
  int2_encode(result.decoded, result.levels, result.bytes.data(), result.differences.data());
  return result;
}

double energy(const Floats& values) {
  double sum = 0;
  for (const float x : values) sum += double{x} * double{x};
  return sum;
}

// Everything that the header promises of one group.
void expect_promises(const Floats& values) {
  const Encoded encoded = encode(values);
  const auto [low, high, above] = encoded.levels;
  ASSERT_TRUE(are_int2_levels(low, high)) << low << ", " << high;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float decoded = encoded.decoded[i];
    ASSERT_TRUE(decoded == 0 || std::isnormal(decoded)) << values[i];
    ASSERT_EQ(std::signbit(decoded), std::signbit(values[i]));
    ASSERT_EQ(double{values[i]} - double{decoded}, double{encoded.differences[i]}) << values[i];
    ASSERT_EQ(encoded.differences[i] + decoded, values[i]);
  }
  ASSERT_LE(energy(encoded.differences), energy(values));
  Floats read(values.size());
  ASSERT_TRUE(int2_decode(encoded.bytes.data(), low, high, read));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(read[i]),
              std::bit_cast<std::uint32_t>(encoded.decoded[i]));
  }
}

TEST(Int2, OneGroupByHand) {
  const Encoded encoded = encode({1.0F, -1.5F, 4.0F, -5.0F, 1.25F});
  // The mean is 2.55: 1, 1.5 and 1.25 are low, 4 and 5 are high.
  EXPECT_EQ(encoded.decoded, (Floats{1.25F, -1.25F, 4.5F, -4.5F, 1.25F}));
  EXPECT_EQ(encoded.differences, (Floats{-0.25F, -0.25F, -0.5F, -0.5F, 0.0F}));
  EXPECT_EQ(encoded.bytes, (std::vector{std::byte{0b11'01'10'00}, std::byte{0}}));
}

TEST(Int2, PromisesHoldAtTheCornersOfTheFormat) {
  std::mt19937 random(3);
  const auto any = [&] {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    return std::isfinite(x) ? x : FLT_MAX;
  };
  for (const std::size_t count : {0, 1, 2, 3, 4, 5, 127, 128, 1024}) {
    Floats finite(count);
    std::ranges::generate(finite, any);
    expect_promises(finite);
    Floats denormal(count);
    std::ranges::generate(denormal, [&] {
      return std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x807FFFFF);
    });
    expect_promises(denormal);
    expect_promises(Floats(count, -FLT_MAX));
    expect_promises(Floats(count, FLT_TRUE_MIN));
    expect_promises(Floats(count, -0.0F));
    Floats lonely(count, 0.0F);
    if (count > 0) lonely[count / 2] = -3.0F;
    expect_promises(lonely);
  }
}

RC_GTEST_PROP(Int2Property, PromisesHold, (const std::vector<std::uint32_t>& patterns)) {
  // Exponents within `range` of each other, as in quantize_test.cc.
  const auto range = static_cast<std::uint32_t>(*rc::gen::inRange(1, 255));
  const auto top = static_cast<std::uint32_t>(*rc::gen::inRange(1, 255));
  Floats values;
  for (const std::uint32_t pattern : patterns) {
    const std::uint32_t spread = (pattern >> 8) % range;
    const std::uint32_t exponent = top > spread ? top - spread : 0;
    values.push_back(std::bit_cast<float>(((pattern * 2654435761U) & 0x807FFFFF) | exponent << 23));
  }
  expect_promises(values);
}

// Of the 1.56 % largest of a normal distribution: signs with one mean would lose 1.2 %.
TEST(Int2, SelectedEntriesKeepTheirEnergy) {
  std::mt19937 random(5);
  std::normal_distribution<float> gauss;
  double kept = 0;
  double lost = 0;
  for (int group = 0; group < 100; ++group) {
    Floats values;
    while (values.size() < 128) {
      const float x = gauss(random);
      if (std::abs(x) > 2.418F) values.push_back(x);
    }
    kept += energy(values);
    lost += energy(encode(values).differences);
  }
  EXPECT_LT(lost / kept, 0.006);
}

TEST(Int2, WhatNoEncoderWritesIsRefused) {
  EXPECT_TRUE(are_int2_levels(0, 0));
  EXPECT_TRUE(are_int2_levels(0x0080, 0x7F7F));
  EXPECT_FALSE(are_int2_levels(0x3F80, 0x3F00)) << "low above high";
  EXPECT_FALSE(are_int2_levels(0, 0x007F)) << "denormal";
  EXPECT_FALSE(are_int2_levels(0, 0x7F80)) << "infinite";
  EXPECT_FALSE(are_int2_levels(0xBF80, 0xBF80)) << "negative";
  Floats three(3);
  const std::byte with_a_fourth{0x40};
  EXPECT_FALSE(int2_decode(&with_a_fourth, 0, 0, three));
  const std::byte without{0x3F};
  EXPECT_TRUE(int2_decode(&without, 0x3F80, 0x3F80, three));
}

}  // namespace
}  // namespace pliant::kernels
