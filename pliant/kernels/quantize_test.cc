// SPDX-License-Identifier: MIT
#include "pliant/kernels/quantize.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pliant/kernels/targets.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace pliant::kernels {
namespace {

using Floats = std::vector<float>;

// One code: both halves of it and their twins.
struct Code {
  std::string name;
  std::size_t bits;
  ScaleBits (*scale)(std::uint32_t);
  bool (*is_scale)(ScaleBits);
  void (*encode)(std::span<float>, float, std::byte*, float*);
  bool (*decode)(const std::byte*, float, std::span<float>);
  void (*twin_encode)(std::span<float>, float, std::byte*, float*);
  bool (*twin_decode)(const std::byte*, float, std::span<float>);
};

const std::vector<Code> kCodes = {
    {"f16", 16, f16_scale, is_f16_scale, f16_encode, f16_decode, scalar::f16_encode,
     scalar::f16_decode},
    {"int8", 8, int8_scale, is_int8_scale, int8_encode, int8_decode, scalar::int8_encode,
     scalar::int8_decode},
    {"int4", 4, int4_scale, is_int4_scale, int4_encode, int4_decode, scalar::int4_encode,
     scalar::int4_decode},
};

struct Encoded {
  std::vector<std::byte> bytes;
  Floats decoded;
  Floats differences;
};

// With `shift` bytes before the output, so that any alignment is tried.
Encoded run(const Code& code, decltype(Code::encode) encode, const Floats& values,
            std::size_t shift) {
  Encoded result{std::vector<std::byte>(shift + (values.size() * code.bits + 7) / 8), values,
                 Floats(values.size())};
  encode(result.decoded, scale_value(code.scale(max_magnitude(values))),
         result.bytes.data() + shift, result.differences.data());
  return result;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

float any_finite(std::mt19937& random) {
  for (;;) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(x)) return x;
  }
}

// Everything an entry can be: ordinary, of one scale or of all, and the corners of the format.
std::vector<Floats> inputs(std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> gauss;
  std::uniform_real_distribution<float> unit(-1, 1);
  std::vector<Floats> all(10, Floats(count));
  for (std::size_t i = 0; i < count; ++i) {
    all[0][i] = gauss(random);
    all[1][i] = any_finite(random);
    all[2][i] = unit(random) * FLT_MAX;
    all[3][i] =
        std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x807FFFFF);  // denormals
    all[4][i] = i % 2 == 0 ? 0.0F : -0.0F;
    all[5][i] = 0.1F;
    all[6][i] = i % 3 == 0 ? -FLT_MAX : FLT_MIN;
    all[7][i] = std::ldexp(unit(random), -static_cast<int>(i % 40));
    all[8][i] = i == count / 2 ? FLT_TRUE_MIN : 0.0F;
    all[9][i] = std::ldexp(std::nextafter(1.0F, 0.0F), static_cast<int>(random() % 256) - 127);
  }
  return all;
}

const std::vector<std::size_t> kCounts = {0,  1,  2,  3,  5,   8,    15,   16,   17,
                                          31, 32, 33, 64, 100, 1023, 1024, 1025, 2100};

TEST(Quantize, EveryTargetGivesTheTwinsBits) {
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    for (const std::size_t count : kCounts) {
      for (const Floats& values : inputs(count)) {
        ASSERT_EQ(max_magnitude(values), scalar::max_magnitude(values))
            << target.name << ", " << count;
        for (const Code& code : kCodes) {
          for (const std::size_t shift : {0, 1, 2}) {
            const Encoded expected = run(code, code.twin_encode, values, shift);
            const Encoded encoded = run(code, code.encode, values, shift);
            ASSERT_TRUE(same_bits(encoded.bytes, expected.bytes))
                << target.name << " " << code.name << ", " << count;
            ASSERT_TRUE(same_bits(encoded.decoded, expected.decoded))
                << target.name << " " << code.name << ", " << count;
            ASSERT_TRUE(same_bits(encoded.differences, expected.differences))
                << target.name << " " << code.name << ", " << count;

            const float scale = scale_value(code.scale(max_magnitude(values)));
            Floats decoded(count);
            ASSERT_TRUE(code.decode(encoded.bytes.data() + shift, scale, decoded))
                << target.name << " " << code.name;
            ASSERT_TRUE(same_bits(decoded, encoded.decoded))
                << target.name << " " << code.name << ", " << count;
            ASSERT_TRUE(code.twin_decode(encoded.bytes.data() + shift, scale, decoded))
                << code.name;
            ASSERT_TRUE(same_bits(decoded, encoded.decoded)) << code.name << ", " << count;
          }
        }
      }
    }
  }
}

// In double: value == decoded + difference. Both are floats less than 2^53 of their common last
// place apart, or the sum would not be exact either; comparing with the exact difference needs no
// sum.
void expect_conserved(const Code& code, const Floats& values) {
  const ScaleBits scale = code.scale(max_magnitude(values));
  ASSERT_TRUE(code.is_scale(scale)) << code.name << " " << scale;
  const Encoded encoded = run(code, code.encode, values, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(encoded.decoded[i] == 0 || std::isnormal(encoded.decoded[i]))
        << code.name << " of " << values[i];
    ASSERT_EQ(double{values[i]} - double{encoded.decoded[i]}, double{encoded.differences[i]})
        << code.name << " of " << values[i];
    ASSERT_EQ(double{encoded.differences[i]} + double{encoded.decoded[i]}, double{values[i]})
        << code.name << " of " << values[i];
  }
}

TEST(Quantize, DecodedAndDifferenceAreExactlyTheValue) {
  for (const Floats& values : inputs(3000)) {
    for (const Code& code : kCodes) expect_conserved(code, values);
  }
}

RC_GTEST_PROP(QuantizeProperty, DecodedAndDifferenceAreExactlyTheValue,
              (const std::vector<std::uint32_t>& patterns)) {
  // Exponents within `range` of each other: a random float alone is almost always far below its
  // group's largest.
  const auto range = static_cast<std::uint32_t>(*rc::gen::inRange(1, 255));
  const auto top = static_cast<std::uint32_t>(*rc::gen::inRange(1, 256));
  Floats values;
  for (const std::uint32_t pattern : patterns) {
    const std::uint32_t spread = (pattern >> 8) % range;
    const std::uint32_t exponent = top > spread ? top - 1 - spread : 0;
    values.push_back(std::bit_cast<float>(((pattern * 2654435761U) & 0x807FFFFF) | exponent << 23));
  }
  for (const Code& code : kCodes) expect_conserved(code, values);
}

// Every scale, and values around every place where rounding changes its mind.
TEST(Quantize, NothingIsLostAtAnyRoundingBoundaryOfAnyScale) {
  for (const Code& code : kCodes) {
    const int levels = code.name == "int4" ? 7 : 127;
    for (std::uint32_t field = 0; field < 255; ++field) {
      Floats values;
      const float largest = std::bit_cast<float>(field << 23 | (field * 0x9E3779B1U & 0x7FFFFF));
      for (int q = 0; q < levels; ++q) {
        const float middle = largest / static_cast<float>(levels) * (static_cast<float>(q) + 0.5F);
        values.insert(values.end(), {std::nextafter(middle, 0.0F), middle,
                                     std::nextafter(middle, FLT_MAX), -middle});
      }
      values.push_back(largest);
      expect_conserved(code, values);
    }
  }
}

TEST(Quantize, ErrorsAreWithinHalfAStep) {
  for (const Floats& values : inputs(1024)) {
    const double largest = std::bit_cast<float>(max_magnitude(values));
    const auto worst = [&](const Code& code) {
      double most = 0;
      for (const float difference : run(code, code.encode, values, 0).differences)
        most = std::max(most, std::abs(double{difference}));
      return most;
    };
    // Half a step, the step up to 1/128 larger than it needs to be and at least 2^-126.
    EXPECT_LE(worst(kCodes[1]), std::max(largest / 254 * (1 + 1.0 / 128), 0x1p-127));
    EXPECT_LE(worst(kCodes[2]), std::max(largest / 14 * (1 + 1.0 / 128), 0x1p-127));
    // One whole last place of 11 bits for the few that would round up to the next power of two,
    // else half of one.
    EXPECT_LE(worst(kCodes[0]), std::max(largest * 0x1p-11, 0x1p-127));
  }
}

TEST(Quantize, F16KeepsElevenBitsDownTo29OctavesBelowTheLargest) {
  for (int octave = 0; octave < 29; ++octave) {
    const Floats values = {1.0F, std::ldexp(1.2345678F, -octave)};
    const Encoded encoded = run(kCodes[0], f16_encode, values, 0);
    EXPECT_LE(std::abs(encoded.differences[1]), values[1] * 0x1p-11F) << octave;
  }
}

TEST(Quantize, ValuesThatNoEncoderWritesAreRefused) {
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    for (const std::size_t count : {1, 16, 33, 1024}) {
      for (const std::size_t place : {std::size_t{0}, count / 2, count - 1}) {
        Floats values(count);
        std::vector<std::byte> bytes(2 * count);
        for (const std::uint16_t half :
             std::initializer_list<std::uint16_t>{0x7800, 0xF800, 0x7C00, 0x7E01, 0xFFFF}) {
          std::memcpy(bytes.data() + 2 * place, &half, 2);
          EXPECT_FALSE(f16_decode(bytes.data(), 1, values)) << target.name;
          EXPECT_FALSE(scalar::f16_decode(bytes.data(), 1, values));
        }
        bytes.assign(bytes.size(), std::byte{0});
        bytes[place] = std::byte{0x80};
        EXPECT_FALSE(int8_decode(bytes.data(), 1, values)) << target.name;
        EXPECT_FALSE(scalar::int8_decode(bytes.data(), 1, values));
        bytes[place] = std::byte{0};
        bytes[place / 2] = std::byte{0x88};
        EXPECT_FALSE(int4_decode(bytes.data(), 1, values)) << target.name;
        EXPECT_FALSE(scalar::int4_decode(bytes.data(), 1, values));
      }
    }
  }
  Floats odd(3);
  const std::vector<std::byte> with_a_fourth = {std::byte{0}, std::byte{0x10}};
  EXPECT_FALSE(int4_decode(with_a_fourth.data(), 1, odd));
  EXPECT_FALSE(scalar::int4_decode(with_a_fourth.data(), 1, odd));
}

TEST(Quantize, NoAllowedScaleOverflows) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto scale = static_cast<ScaleBits>(bits);
    EXPECT_TRUE(!is_f16_scale(scale) || std::isfinite(scale_value(scale) * 32752)) << bits;
    EXPECT_TRUE(!is_int8_scale(scale) || std::isfinite(scale_value(scale) * 127)) << bits;
    EXPECT_TRUE(!is_int4_scale(scale) || std::isfinite(scale_value(scale) * 7)) << bits;
  }
}

#ifdef __SSE2__
// As torch.set_flush_denormal(true) leaves a training thread.
TEST(Quantize, WhereDenormalsAreFlushedDecodersReadTheSame) {
  const unsigned mode = _mm_getcsr();
  for (const int exponent : {-149, -140, -127, -126, -125, -120, -119, -110, -100}) {
    const Floats values = {std::ldexp(1.0F, exponent), std::ldexp(-0.7F, exponent),
                           std::ldexp(0.4F, exponent)};
    for (const Code& code : kCodes) {
      _mm_setcsr(mode | 0x8040);
      const float scale = scale_value(code.scale(max_magnitude(values)));
      const Encoded flushed = run(code, code.encode, values, 0);
      _mm_setcsr(mode);
      Floats decoded(3);
      EXPECT_TRUE(code.decode(flushed.bytes.data(), scale, decoded))
          << code.name << " 2^" << exponent;
      EXPECT_TRUE(same_bits(decoded, flushed.decoded)) << code.name << " 2^" << exponent;
    }
  }
}
#endif

TEST(Quantize, MaxMagnitudeSeesNonFiniteAnywhere) {
  for (const Target& target : targets()) {
    const PinnedTarget pinned(target);
    for (const std::size_t count : {1, 7, 64, 1000}) {
      for (std::size_t place = 0; place < count; place += 3) {
        for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
          Floats values(count, FLT_MAX);
          values[place] = bad;
          EXPECT_GE(max_magnitude(values), kInfinityBits) << target.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pliant::kernels
