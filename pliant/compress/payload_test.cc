// SPDX-License-Identifier: MIT
#include "pliant/compress/payload.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "pliant/common/errors.h"
#include "tests/support/payload_samples.h"

namespace pliant::compress {
namespace {

using plan::Codes;
using plan::Contents;
using plan::IndexCode;
using plan::ValueCode;

std::vector<Codes> all_codes() {
  std::vector<Codes> all;
  for (const IndexCode indices : plan::kIndexCodes) {
    for (const ValueCode values : plan::kValueCodes) all.push_back({indices, values});
  }
  return all;
}

std::string name(Codes codes) {
  return std::string(to_string(codes.indices)) + " " + std::string(to_string(codes.values));
}

Envelope envelope_of(std::uint32_t length, Codes codes, Contents contents = Contents::kBoth) {
  return {.round = 40,
          .plan_version = 17,
          .bucket = 2,
          .slice = 1,
          .sender = 3,
          .length = length,
          .codes = codes,
          .contents = contents};
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

void expect_round_trip(const Envelope& envelope, Entries entries) {
  const auto bytes = encoded(envelope, entries, {.non_finite = true});
  ASSERT_LE(bytes.size(),
            static_cast<std::size_t>(plan::encoded_bound(envelope.length, entries.indices.size(),
                                                         envelope.codes, envelope.contents)
                                         .value));
  ASSERT_EQ(payload_bytes(bytes), bytes.size());
  Entries read{std::vector<std::uint32_t>(entries.indices.size()),
               std::vector<float>(entries.values.size())};
  const Decoded decoded = decode(bytes, envelope, read.indices, read.values);
  ASSERT_EQ(decoded.status, SenderStatus{.non_finite = true});
  if (envelope.contents != Contents::kValues) {
    ASSERT_EQ(read.indices, entries.indices) << name(envelope.codes);
  }
  if (envelope.contents != Contents::kIndices) {
    ASSERT_TRUE(same_bits(decoded.values, entries.values)) << name(envelope.codes);
  }
}

// The field that an action complains about.
template <typename Error, typename Action>
std::string field_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.field();
  }
  return "nothing thrown";
}

template <typename T>
void put(std::vector<std::byte>& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

std::string fault(const std::vector<std::byte>& bytes, const Envelope& expected) {
  std::vector<std::uint32_t> indices(expected.length);
  std::vector<float> values(expected.length);
  return field_of<CorruptPayload>(
      [&] { static_cast<void>(decode(bytes, expected, indices, values)); });
}

TEST(Payload, ComesBackInEveryCodeSizeAndContents) {
  std::mt19937 random(3);
  for (const Codes codes : all_codes()) {
    for (const Contents contents : {Contents::kBoth, Contents::kIndices, Contents::kValues}) {
      for (const std::uint32_t length : {0, 1, 2, 7, 64, 1000, 65536, 65537, 200000}) {
        for (const double density : {0.0, 0.001, 0.1, 0.4, 1.0}) {
          expect_round_trip(envelope_of(length, codes, contents),
                            random_entries(random, length, density));
        }
      }
    }
  }
}

TEST(Payload, EveryEntryOfASpanOrOnlyItsLast) {
  for (const Codes codes : all_codes()) {
    for (const std::uint32_t length : {1, 100, 65536, 70000}) {
      Entries all{std::vector<std::uint32_t>(length), std::vector<float>(length, 0.3F)};
      for (std::uint32_t i = 0; i < length; ++i) all.indices[i] = i;
      expect_round_trip(envelope_of(length, codes), all);
      expect_round_trip(envelope_of(length, codes), {{length - 1}, {-1.0F}});
    }
    if (codes.indices != IndexCode::kBlock16)
      expect_round_trip(envelope_of(UINT32_MAX, codes), {{0, UINT32_MAX - 1}, {1.0F, 2.0F}});
  }
}

TEST(Payload, WithoutEntriesIsItsHeader) {
  for (const Codes codes : all_codes()) {
    Entries none;
    const auto bytes = encoded(envelope_of(1'000'000, codes), none, {.refused = true});
    EXPECT_EQ(bytes.size(), plan::kPayloadHeaderBytes);
    const Opened opened = open(bytes, envelope_of(1'000'000, codes), 0);
    EXPECT_EQ(opened.count, 0U);
    EXPECT_EQ(opened.status, SenderStatus{.refused = true});
  }
}

TEST(Payload, IsFoundAtTheStartOfALongerBufferAtAnyAddress) {
  std::mt19937 random(4);
  const Entries original = random_entries(random, 5000, 0.1);
  for (const Codes codes : all_codes()) {
    Entries entries = original;
    const Envelope envelope = envelope_of(5000, codes);
    const auto bytes = encoded(envelope, entries);
    for (const std::size_t shift : {1, 3, 8}) {
      Entries again = original;
      std::vector<float> lost(again.values.size());
      std::vector<std::byte> buffer(shift + 20000, std::byte{0xEE});
      const auto written =
          encode(envelope, {}, again.indices, again.values, lost, std::span(buffer).subspan(shift));
      ASSERT_EQ(std::vector<std::byte>(written.begin(), written.end()), bytes) << name(codes);
      Entries read{std::vector<std::uint32_t>(5000), std::vector<float>(5000)};
      const Decoded decoded = decode(std::span<const std::byte>(buffer).subspan(shift), envelope,
                                     read.indices, read.values);
      ASSERT_TRUE(std::equal(decoded.indices.begin(), decoded.indices.end(),
                             entries.indices.begin(), entries.indices.end()));
      ASSERT_TRUE(same_bits(decoded.values, entries.values));
    }
  }
}

TEST(Payload, TwoEncodersWriteTheSameBytes) {
  std::mt19937 random(5);
  const Entries original = random_entries(random, 50000, 0.05);
  for (const Codes codes : all_codes()) {
    Entries first = original;
    Entries second = original;
    EXPECT_EQ(encoded(envelope_of(50000, codes), first),
              encoded(envelope_of(50000, codes), second));
  }
}

// Decoding and encoding again changes nothing: rounding is idempotent, so a payload can be taken
// apart and passed on.
TEST(Payload, RoundedValuesRoundToThemselves) {
  std::mt19937 random(6);
  for (const ValueCode code : plan::kValueCodes) {
    Entries entries = random_entries(random, 20000, 0.2);
    const Envelope envelope = envelope_of(20000, {IndexCode::kRice, code});
    encoded(envelope, entries);
    Entries again = entries;
    std::vector<float> differences;
    encoded(envelope, again, {}, &differences);
    EXPECT_TRUE(same_bits(again.values, entries.values)) << to_string(code);
    EXPECT_TRUE(std::all_of(differences.begin(), differences.end(), [](float d) { return d == 0; }))
        << to_string(code);
  }
}

// --- conservation ---

rc::Gen<std::vector<float>> finite_values() {
  const auto ordinary = rc::gen::map(rc::gen::inRange(-1'000'000, 1'000'000),
                                     [](int x) { return static_cast<float>(x) * 1.2345e-6F; });
  const auto any = rc::gen::map(rc::gen::arbitrary<std::uint32_t>(), [](std::uint32_t bits) {
    const auto x = std::bit_cast<float>(bits);
    return std::isfinite(x) ? x : FLT_MAX;
  });
  return rc::gen::container<std::vector<float>>(
      rc::gen::weightedOneOf<float>({{4, ordinary}, {1, any}}));
}

RC_GTEST_PROP(PayloadProperty, WhatIsSentAndWhatIsKeptAreExactlyWhatWasThere, ()) {
  // Repeated, so that there are also several groups of 1024.
  const auto once = *finite_values();
  std::vector<float> values;
  for (int repeats = *rc::gen::inRange(0, 30); repeats >= 0; --repeats)
    values.insert(values.end(), once.begin(), once.end());
  const Codes codes{*rc::gen::elementOf(plan::kIndexCodes), *rc::gen::elementOf(plan::kValueCodes)};
  const auto gaps = *rc::gen::noShrink(rc::gen::container<std::vector<std::uint32_t>>(
      values.size(), rc::gen::inRange<std::uint32_t>(0, 300)));
  Entries entries{{}, values};
  std::uint32_t next = 0;
  for (const std::uint32_t gap : gaps) next = entries.indices.emplace_back(next + gap) + 1;
  const Envelope envelope = envelope_of(next + 5, codes);

  std::vector<float> residual(envelope.length, 0.25F);
  for (const std::uint32_t index : entries.indices)
    residual[index] = 0;  // as a selection leaves it
  std::vector<std::byte> out(
      static_cast<std::size_t>(plan::encoded_bound(envelope.length, values.size(), codes).value));
  const auto payload =
      encode_giving_back(envelope, {}, entries.indices, entries.values, residual, out);

  Entries read{std::vector<std::uint32_t>(values.size()), std::vector<float>(values.size())};
  static_cast<void>(decode(payload, envelope, read.indices, read.values));
  RC_ASSERT(read.indices == entries.indices);
  RC_ASSERT(same_bits(read.values, entries.values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float kept = residual[entries.indices[i]];
    RC_ASSERT(double{values[i]} - double{read.values[i]} == double{kept});
    RC_ASSERT(codes.values != ValueCode::kF32 || std::bit_cast<std::uint32_t>(read.values[i]) ==
                                                     std::bit_cast<std::uint32_t>(values[i]));
    residual[entries.indices[i]] = 0.25F;
  }
  RC_ASSERT(std::all_of(residual.begin(), residual.end(), [](float r) { return r == 0.25F; }));
}

TEST(Payload, ValuesAloneGiveBackToo) {
  std::vector<float> values = {1.0F, 0.123456F, -0.77777F};
  const std::vector<float> before = values;
  const std::vector<std::uint32_t> indices = {1, 4, 9};
  std::vector<float> residual(10);
  std::vector<std::byte> out(1000);
  encode_giving_back(envelope_of(10, {IndexCode::kRice, ValueCode::kInt4}, Contents::kValues), {},
                     indices, values, residual, out);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(double{before[i]} - double{values[i]}, double{residual[indices[i]]});
  EXPECT_NE(residual[4], 0.0F);
}

// --- sizes ---

TEST(CodeSizes, TheBoundHoldsForFewerEntriesWhereverTheyLie) {
  for (const std::uint32_t length : {1, 10, 1000, 65537}) {
    for (std::uint32_t most = 0; most <= length; most += 1 + length / 200) {
      for (const Codes codes : all_codes()) {
        const Bytes bound = plan::encoded_bound(length, most, codes);
        for (std::uint32_t count = most - std::min(most, 3U); count <= most; ++count) {
          ASSERT_LE(plan::encoded_bound(length, count, codes), bound)
              << name(codes) << ", " << count << " and " << most << " of " << length;
        }
      }
    }
  }
}

TEST(CodeSizes, TheRiceBoundHoldsForTheWorstPlaces) {
  // Gaps that are multiples of 2^parameter waste nothing; one gap that takes all is the longest
  // high plane.
  for (const std::uint32_t length : {100, 5000}) {
    for (std::uint32_t count = 1; count <= length; count += 1 + length / 97) {
      const Envelope envelope = envelope_of(length, {IndexCode::kRice, ValueCode::kF32});
      Entries at_end;
      for (std::uint32_t i = length - count; i < length; ++i) at_end.indices.push_back(i);
      at_end.values.resize(count, 1.0F);
      expect_round_trip(envelope, at_end);
    }
  }
}

TEST(CodeSizes, TheRiceParameterIsTheBest) {
  const auto cost = [](double density, int parameter) {
    return parameter + 1 / (1 - std::pow(1 - density, std::ldexp(1, parameter)));
  };
  for (std::uint64_t count = 1; count < 1'000'000; count += 1 + count / 7) {
    const int chosen = plan::rice_parameter(1'000'000, count);
    for (int other = 0; other < 24; ++other) {
      EXPECT_LE(cost(static_cast<double>(count) / 1e6, chosen),
                1.003 * cost(static_cast<double>(count) / 1e6, other))
          << count;
    }
  }
}

TEST(CodeSizes, TheEstimateIsWithinOnePercent) {
  std::mt19937 random(8);
  for (const double density : {0.3, 0.1, 0.01, 0.001}) {
    Entries entries = random_entries(random, 10'000'000, density);
    for (const Codes codes : all_codes()) {
      const Envelope envelope = envelope_of(10'000'000, codes, Contents::kIndices);
      const auto estimate = static_cast<double>(
          plan::encoded_estimate(envelope.length, entries.indices.size(), codes, envelope.contents)
              .value);
      EXPECT_NEAR(static_cast<double>(encoded(envelope, entries).size()) / estimate, 1, 0.01)
          << name(codes) << ", density " << density;
    }
  }
}

TEST(CodeSizes, RiceIsWithinTwoPercentOfTheBoundOfInformation) {
  std::mt19937 random(9);
  const std::uint32_t length = 4'000'000;
  for (const double density : {0.1, 0.01, 0.001}) {
    Entries entries = random_entries(random, length, density);
    const auto n = static_cast<double>(length);
    const auto k = static_cast<double>(entries.indices.size());
    const double bound_bits =
        (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2);
    const Envelope envelope =
        envelope_of(length, {IndexCode::kRice, ValueCode::kF32}, Contents::kIndices);
    const double bits =
        8 * static_cast<double>(encoded(envelope, entries).size() - plan::kPayloadHeaderBytes);
    EXPECT_LE(bits, 1.02 * bound_bits) << density;
  }
}

// --- what is refused ---

struct Sample {
  Envelope envelope;
  std::vector<std::byte> bytes;
};

Sample sample(Codes codes, Contents contents = Contents::kBoth) {
  Entries entries{{2, 5, 900}, {1.0F, -0.5F, 0.25F}};
  const Envelope envelope = envelope_of(1000, codes, contents);
  return {envelope, encoded(envelope, entries)};
}

TEST(Refusal, AnotherEnvelopeIsAMismatchThatNamesBothValues) {
  const Sample good = sample({IndexCode::kRice, ValueCode::kInt8});
  std::vector<std::uint32_t> indices(3);
  std::vector<float> values(3);
  const auto field = [&](auto change) {
    Envelope other = good.envelope;
    change(other);
    return field_of<PayloadMismatch>(
        [&] { static_cast<void>(decode(good.bytes, other, indices, values)); });
  };
  EXPECT_EQ(field([](Envelope& e) { e.plan_version = 18; }), "epoch");
  EXPECT_EQ(field([](Envelope& e) { e.round = 41; }), "step");
  EXPECT_EQ(field([](Envelope& e) { e.bucket = 9; }), "bucket");
  EXPECT_EQ(field([](Envelope& e) { e.slice = 9; }), "slice");
  EXPECT_EQ(field([](Envelope& e) { e.sender = 9; }), "sender");
  EXPECT_EQ(field([](Envelope& e) { e.length = 1001; }), "length");
  EXPECT_EQ(field([](Envelope& e) { e.codes.indices = IndexCode::kRaw32; }), "index_code");
  EXPECT_EQ(field([](Envelope& e) { e.codes.values = ValueCode::kF16; }), "value_code");
  EXPECT_EQ(field([](Envelope& e) { e.contents = Contents::kValues; }), "contents");
  try {
    Envelope other = good.envelope;
    other.plan_version = 18;
    static_cast<void>(open(good.bytes, other, 3));
    FAIL();
  } catch (const PayloadMismatch& error) {
    EXPECT_STREQ(error.what(),
                 "payload of rank 3, plan version 18, round 40, bucket 2, slice 1: plan version is "
                 "17, expected 18");
  }
}

TEST(Refusal, AnotherVersionIsAMismatch) {
  Sample other = sample({IndexCode::kRice, ValueCode::kF32});
  put(other.bytes, 4, std::uint8_t{kPayloadVersion - 1});
  sign(other.bytes);
  EXPECT_EQ(
      field_of<PayloadMismatch>([&] { static_cast<void>(open(other.bytes, other.envelope, 3)); }),
      "version");
  EXPECT_EQ(field_of<PayloadMismatch>([&] { static_cast<void>(payload_bytes(other.bytes)); }),
            "version");
}

TEST(Refusal, EveryFieldOfTheHeaderIsChecked) {
  const Sample good = sample({IndexCode::kRice, ValueCode::kF32});
  const auto with = [&](std::size_t at, auto value) {
    auto bytes = good.bytes;
    put(bytes, at, value);
    sign(bytes);
    return fault(bytes, good.envelope);
  };
  EXPECT_EQ(with(0, 'Q'), "magic");
  EXPECT_EQ(with(5, std::uint8_t{3}), "index_code");
  EXPECT_EQ(with(6, std::uint8_t{5}), "value_code");
  EXPECT_EQ(with(7, std::uint8_t{0}), "flags");
  EXPECT_EQ(with(7, std::uint8_t{16 + 3}), "flags");
  EXPECT_EQ(with(44, std::uint32_t{1001}), "count");
  EXPECT_EQ(with(44, std::uint32_t{5}), "value_words");
  EXPECT_EQ(with(48, UINT32_MAX), "index_words");
  EXPECT_EQ(with(52, UINT32_MAX - 7), "value_words");
  EXPECT_EQ(with(52, std::uint32_t{1}), "value_words");
  EXPECT_EQ(with(56, -1.0F), "unsent");
  EXPECT_EQ(with(60, std::numeric_limits<float>::quiet_NaN()), "vote");
  auto unsigned_ = good.bytes;
  unsigned_[20] ^= std::byte{1};
  EXPECT_EQ(fault(unsigned_, good.envelope), "checksum");
}

TEST(Refusal, MoreEntriesThanExpected) {
  const Sample good = sample({IndexCode::kRice, ValueCode::kF32});
  EXPECT_EQ(
      field_of<CorruptPayload>([&] { static_cast<void>(open(good.bytes, good.envelope, 2)); }),
      "count");
  EXPECT_THROW(static_cast<void>(decode_values(open(good.bytes, good.envelope, 3), {})),
               ContractError);
}

TEST(Refusal, EveryTruncation) {
  for (const Codes codes : all_codes()) {
    const Sample good = sample(codes);
    for (std::size_t size = 0; size < good.bytes.size(); ++size) {
      const std::vector<std::byte> cut(good.bytes.begin(),
                                       good.bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_NE(fault(cut, good.envelope), "nothing thrown") << name(codes) << " cut to " << size;
    }
  }
}

TEST(Refusal, IndicesOutOfOrderOrRange) {
  Sample raw = sample({IndexCode::kRaw32, ValueCode::kF32});
  const auto with_second = [&](std::uint32_t index) {
    put(raw.bytes, 64 + 4, index);
    sign(raw.bytes);
    return fault(raw.bytes, raw.envelope);
  };
  EXPECT_EQ(with_second(2), "index stream");
  EXPECT_EQ(with_second(901), "index stream");
  EXPECT_EQ(with_second(UINT32_MAX), "index stream");
  EXPECT_EQ(with_second(6), "nothing thrown");
  put(raw.bytes, 64 + 8, std::uint32_t{1000});
  sign(raw.bytes);
  EXPECT_EQ(fault(raw.bytes, raw.envelope), "index stream");

  Sample block = sample({IndexCode::kBlock16, ValueCode::kF32});
  const auto good = block.bytes;
  for (const std::uint32_t count : {0U, 2U, 4U, UINT32_MAX}) {
    put(block.bytes, 64, count);
    sign(block.bytes);
    EXPECT_EQ(fault(block.bytes, block.envelope), "index stream") << count;
  }
  block.bytes = good;
  put(block.bytes, 64 + 4, std::uint16_t{5});  // 5, 5, 900
  sign(block.bytes);
  EXPECT_EQ(fault(block.bytes, block.envelope), "index stream");

  Sample rice = sample({IndexCode::kRice, ValueCode::kF32});
  const int parameter = plan::rice_parameter(1000, 3);
  ASSERT_EQ(parameter, 8);
  put(rice.bytes, 64 + 2,
      std::uint8_t{255});  // 900 = 6 + 894 and 894 = 3 * 256 + 126; + 129 is 1029
  sign(rice.bytes);
  EXPECT_EQ(fault(rice.bytes, rice.envelope), "index stream");
}

TEST(Refusal, ValuesThatAreNotFinite) {
  Sample plain = sample({IndexCode::kRaw32, ValueCode::kF32}, Contents::kValues);
  put(plain.bytes, 64 + 4, HUGE_VALF);
  sign(plain.bytes);
  EXPECT_EQ(fault(plain.bytes, plain.envelope), "value stream");
  for (const ValueCode code : {ValueCode::kF16, ValueCode::kInt8, ValueCode::kInt4}) {
    Sample scaled = sample({IndexCode::kRaw32, code}, Contents::kValues);
    for (const std::uint16_t scale :
         std::initializer_list<std::uint16_t>{0x7F80, 0x7FC0, 0xFF80, 0x8001, 0x7F00}) {
      put(scaled.bytes, 64, scale);
      sign(scaled.bytes);
      EXPECT_EQ(fault(scaled.bytes, scaled.envelope), "value stream")
          << to_string(code) << " scale " << scale;
    }
  }
  Sample half = sample({IndexCode::kRaw32, ValueCode::kF16}, Contents::kValues);
  put(half.bytes, 64 + 8, std::uint16_t{0x7C00});
  sign(half.bytes);
  EXPECT_EQ(fault(half.bytes, half.envelope), "value stream");
}

TEST(Refusal, PaddingThatIsNotZero) {
  for (const Codes codes : all_codes()) {
    Sample padded = sample(codes);
    padded.bytes.back() ^= std::byte{1};  // three values leave padding in every code
    sign(padded.bytes);
    EXPECT_EQ(fault(padded.bytes, padded.envelope), "value stream") << name(codes);
  }
}

TEST(Refusal, EncodingWhatCannotBeASelectionChangesNothing) {
  const Envelope envelope = envelope_of(10, {IndexCode::kRice, ValueCode::kInt8});
  std::vector<std::byte> out(200);
  const auto refused = [&](std::vector<std::uint32_t> indices, std::vector<float> values) {
    const auto before = values;
    std::vector<float> residual(10);
    EXPECT_THROW(encode_giving_back(envelope, {}, indices, values, residual, out), ContractError);
    EXPECT_EQ(residual, std::vector<float>(10));
    EXPECT_EQ(std::memcmp(values.data(), before.data(), 4 * values.size()), 0);
  };
  refused({1, 1}, {1.0F, 2.0F});
  refused({2, 1}, {1.0F, 2.0F});
  refused({1, 10}, {1.0F, 2.0F});
  refused({1}, {1.0F, 2.0F});
  refused({1, 2}, {1.0F, std::nanf("")});
  refused({1, 2}, {1.0F, -HUGE_VALF});
  std::vector<float> values = {0.3F};
  std::vector<float> lost(1);
  EXPECT_THROW(
      encode(envelope, {}, std::vector<std::uint32_t>{1}, values, lost, std::span(out).first(70)),
      ContractError);
  EXPECT_THROW(encode(envelope, {}, std::vector<std::uint32_t>{1}, values, {}, out), ContractError);
}

TEST(SenderStatus, MergeAsTheirPayloadsAreAdded) {
  SenderStatus status{.unsent = 1, .vote = 2, .voted = 7};
  merge(status, {.non_finite = true, .unsent = 3, .vote = 2, .voted = 3});
  EXPECT_EQ(status, (SenderStatus{.non_finite = true, .unsent = 1, .vote = 2, .voted = 3}));
  merge(status, {.refused = true, .vote = 5, .voted = 9});
  EXPECT_EQ(status, (SenderStatus{
                        .non_finite = true, .refused = true, .unsent = 1, .vote = 5, .voted = 9}));
}

}  // namespace
}  // namespace pliant::compress
