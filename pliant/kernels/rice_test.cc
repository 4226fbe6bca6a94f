// SPDX-License-Identifier: MIT
#include "pliant/kernels/rice.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "pliant/kernels/targets.h"

namespace pliant::kernels {
namespace {

using Indices = std::vector<std::uint32_t>;
using Stream = std::vector<std::byte>;

Indices from_gaps(const std::vector<std::uint32_t>& gaps) {
  Indices indices;
  std::uint64_t next = 0;
  for (const std::uint32_t gap : gaps) {
    if (next + gap > UINT32_MAX) break;
    indices.push_back(static_cast<std::uint32_t>(next + gap));
    next += gap + 1ULL;
  }
  return indices;
}

// Filled with ones first, so that a byte the encoder forgets to write shows.
template <typename Encode>
Stream encoded(const Indices& indices, int parameter, Encode encode) {
  const std::uint64_t high_bits =
      indices.empty() ? 0 : indices.size() + (indices.back() >> parameter);
  Stream stream(8 * ((indices.size() * static_cast<std::size_t>(parameter) + 63) / 64 +
                     (high_bits + 63) / 64),
                std::byte{0xFF});
  const std::size_t used =
      encode(std::span<const std::uint32_t>(indices), parameter, stream.data());
  EXPECT_LE(used, stream.size());
  stream.resize(used);
  return stream;
}

void expect_same_as_twin(const Indices& indices, int parameter) {
  const Stream expected = encoded(indices, parameter, scalar::rice_encode);
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    ASSERT_EQ(encoded(indices, parameter, rice_encode), expected)
        << target.name << ", parameter " << parameter;
    if (indices.empty()) continue;
    Indices decoded(indices.size());
    ASSERT_EQ(rice_decode(expected, parameter, decoded),
              std::optional<std::uint64_t>(indices.back()))
        << target.name;
    ASSERT_EQ(decoded, indices) << target.name << ", parameter " << parameter;
    ASSERT_EQ(scalar::rice_decode(expected, parameter, decoded),
              std::optional<std::uint64_t>(indices.back()));
    ASSERT_EQ(decoded, indices);
  }
}

TEST(Rice, EveryTargetWritesAndReadsTheTwinsBits) {
  std::mt19937 random(1);
  for (int parameter = 0; parameter < 32; ++parameter) {
    for (const std::size_t count : {0, 1, 2, 3, 63, 64, 65, 1000}) {
      std::geometric_distribution<std::uint32_t> gap(0.7 /
                                                     std::ldexp(1.0, std::min(parameter, 20)));
      std::vector<std::uint32_t> gaps(count);
      for (auto& g : gaps) g = gap(random);
      expect_same_as_twin(from_gaps(gaps), parameter);
    }
  }
}

TEST(Rice, TheFirstAndTheLastIndexThereCanBe) {
  expect_same_as_twin({0}, 0);
  expect_same_as_twin({UINT32_MAX}, 31);
  expect_same_as_twin({0, UINT32_MAX}, 20);
  expect_same_as_twin({0, 1, 2, 3, 100000}, 0);
}

TEST(Rice, AStreamAtAnOddAddressIsReadAndWritten) {
  const Indices indices = from_gaps({5, 0, 17, 300, 2, 2, 90});
  const Stream expected = encoded(indices, 3, scalar::rice_encode);
  Stream shifted(expected.size() + 1);
  ASSERT_EQ(rice_encode(indices, 3, shifted.data() + 1), expected.size());
  ASSERT_EQ(Stream(shifted.begin() + 1, shifted.end()), expected);
  Indices decoded(indices.size());
  ASSERT_TRUE(rice_decode(std::span<const std::byte>(shifted).subspan(1), 3, decoded));
  ASSERT_EQ(decoded, indices);
}

RC_GTEST_PROP(RiceProperty, AnyStreamIsJudgedAsByTheTwin,
              (const std::vector<std::uint8_t>& noise)) {
  const int parameter = *rc::gen::inRange(0, 12);
  const auto count = static_cast<std::size_t>(*rc::gen::inRange(1, 40));
  Stream stream(noise.size() / 8 * 8);
  for (std::size_t i = 0; i < stream.size(); ++i) stream[i] = std::byte{noise[i]};
  Indices by_twin(count);
  const auto expected = scalar::rice_decode(stream, parameter, by_twin);
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    Indices decoded(count);
    RC_ASSERT(rice_decode(stream, parameter, decoded) == expected);
    if (expected) RC_ASSERT(decoded == by_twin);
  }
}

TEST(Rice, AStreamOfAnotherCountIsRefused) {
  const Indices indices = from_gaps({5, 0, 17, 300, 2, 2, 90});
  const Stream stream = encoded(indices, 4, rice_encode);
  for (const std::size_t count : {0, 1, 6, 8, 1000}) {
    Indices decoded(count);
    EXPECT_FALSE(rice_decode(stream, 4, decoded)) << count;
    EXPECT_FALSE(scalar::rice_decode(stream, 4, decoded)) << count;
  }
}

TEST(Rice, BitsThatNoEncoderWritesAreRefused) {
  const Indices indices = from_gaps({5, 0, 17});
  const Stream good =
      encoded(indices, 4, rice_encode);  // 12 bits of low plane, then the high plane
  Indices decoded(indices.size());
  for (const std::size_t bit : {12, 63, 127}) {
    Stream bad = good;
    bad[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(rice_decode(bad, 4, decoded)) << bit;
    EXPECT_FALSE(scalar::rice_decode(bad, 4, decoded)) << bit;
  }
  Stream longer = good;
  longer.resize(good.size() + 8);
  EXPECT_FALSE(rice_decode(longer, 4, decoded));
  EXPECT_FALSE(scalar::rice_decode(longer, 4, decoded));
}

}  // namespace
}  // namespace pliant::kernels
