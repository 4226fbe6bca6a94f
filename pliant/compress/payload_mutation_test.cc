// SPDX-License-Identifier: MIT
// What libFuzzer looks for in tests/fuzz, found deterministically: several hundred thousand damaged
// payloads, none accepted.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/hostile_decode.h"
#include "tests/support/payload_samples.h"

namespace pliant::compress {
namespace {

using Bytes = std::vector<std::byte>;

constexpr unsigned kChoices = 36;  // 3 index codes x 4 value codes x 3 contents

// A payload and the envelope its reader expects.
struct Sample {
  Envelope envelope;
  Bytes bytes;
};

std::vector<Sample> samples(std::mt19937& random) {
  std::vector<Sample> all;
  for (unsigned choice = 0; choice < kChoices; ++choice) {
    for (const double density : {0.0, 3.0 / kHostileLength, 0.001, 0.012}) {
      Entries entries = random_entries(random, kHostileLength, density);
      const Envelope envelope = hostile_envelope(choice);
      all.push_back({envelope, encoded(envelope, entries)});
    }
  }
  return all;
}

std::size_t below(std::mt19937& random, std::size_t limit) {
  return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

// One kind of damage each; the bytes may change in length. The header is hit as often as the
// streams.
void damage(std::mt19937& random, Bytes& bytes) {
  const std::size_t target = below(random, 2) == 0
                                 ? std::min<std::size_t>(bytes.size(), plan::kPayloadHeaderBytes)
                                 : bytes.size();
  const std::size_t at = below(random, target);
  switch (below(random, 6)) {
    case 0:
      bytes[at] ^= std::byte{1} << below(random, 8);
      break;
    case 1:
      bytes[at] = static_cast<std::byte>(below(random, 256));
      break;
    case 2:  // a word that lengths and counts go wrong with
      for (std::size_t i = at / 4 * 4; i < std::min(at / 4 * 4 + 4, bytes.size()); ++i)
        bytes[i] = below(random, 2) == 0 ? std::byte{0xFF} : std::byte{0};
      break;
    case 3:
      bytes.resize(at);
      bytes.shrink_to_fit();  // so that AddressSanitizer sees a read beyond it
      break;
    case 4:  // two bytes change places
      std::swap(bytes[at], bytes[below(random, bytes.size())]);
      break;
    default:  // one part copied over another
      for (std::size_t i = at, from = below(random, bytes.size());
           i < std::min(at + 8, bytes.size()) && from < bytes.size(); ++i, ++from)
        bytes[i] = bytes[from];
  }
}

Bytes damaged(std::mt19937& random, const Bytes& good) {
  Bytes bytes = good;
  for (std::size_t n = 1 + below(random, 3); n > 0 && !bytes.empty(); --n) damage(random, bytes);
  return bytes;
}

TEST(PayloadMutation, NoDamagedPayloadIsAccepted) {
  std::mt19937 random(11);
  HostileDecoder decoder;
  int mutated = 0;
  for (int round = 0; mutated < 200'000; ++round) {
    ASSERT_LT(round, 10'000);
    for (const Sample& sample : samples(random)) {
      ASSERT_TRUE(decoder.accepts(sample.bytes, sample.envelope));
      for (int i = 0; i < 100; ++i) {
        const Bytes bytes = damaged(random, sample.bytes);
        if (bytes == sample.bytes) continue;  // two equal bytes changed places, say
        ASSERT_FALSE(decoder.accepts(bytes, sample.envelope)) << "mutation " << mutated;
        ++mutated;
      }
    }
  }
}

// With a fresh checksum some damage makes another payload in good order. The decoder must still see
// to it that what it returns is a selection, and most damage must be refused for its content.
TEST(PayloadMutation, SignedDamageIsRefusedOrStillASelection) {
  std::mt19937 random(12);
  HostileDecoder decoder;
  int mutated = 0;
  int refused = 0;
  while (mutated < 200'000) {
    for (const Sample& sample : samples(random)) {
      for (int i = 0; i < 100; ++i, ++mutated) {
        Bytes bytes = damaged(random, sample.bytes);
        sign(bytes);
        if (!decoder.accepts(bytes, sample.envelope)) ++refused;
      }
    }
  }
  EXPECT_GT(refused, mutated / 2);
  EXPECT_LT(refused, mutated);
}

TEST(PayloadMutation, EverySingleBitCounts) {
  std::mt19937 random(13);
  HostileDecoder decoder;
  int checked = 0;
  for (Sample& sample : samples(random)) {
    if (sample.bytes.size() > 1000) continue;
    ++checked;
    for (std::size_t bit = 0; bit < 8 * sample.bytes.size(); ++bit) {
      sample.bytes[bit / 8] ^= std::byte{1} << bit % 8;
      ASSERT_FALSE(decoder.accepts(sample.bytes, sample.envelope)) << "bit " << bit;
      sample.bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
  }
  EXPECT_GT(checked, 0) << "every sample is too long";
}

TEST(PayloadMutation, NoiseIsRefused) {
  std::mt19937 random(14);
  HostileDecoder decoder;
  for (unsigned i = 0; i < 20'000; ++i) {
    Bytes bytes(below(random, 300));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    ASSERT_FALSE(decoder.accepts(bytes, hostile_envelope(i)));
  }
}

}  // namespace
}  // namespace pliant::compress
