// SPDX-License-Identifier: MIT
#include "pliant/compress/payload_reader.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace pliant::compress {
namespace {

struct Sent {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;  // as decoded
  std::vector<std::byte> bytes;
  Envelope envelope;
};

Sent random_payload(plan::IndexCode indices, plan::ValueCode values, std::uint32_t length,
                    double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::bernoulli_distribution kept(density);
  Sent sent{.envelope = {.length = length, .codes = {indices, values}}};
  for (std::uint32_t i = 0; i < length; ++i) {
    if (kept(random)) {
      sent.indices.push_back(i);
      sent.values.push_back(normal(random));
    }
  }
  sent.bytes.resize(static_cast<std::size_t>(
      encoded_bound(length, sent.indices.size(), sent.envelope.codes).value));
  std::vector<float> differences(sent.values.size());
  const auto payload =
      encode(sent.envelope, {}, sent.indices, sent.values, differences, sent.bytes);
  sent.bytes.resize(payload.size());
  return sent;
}

TEST(PayloadReader, GivesTheEntriesThatDecodingGivesWhateverTheChunks) {
  for (const plan::IndexCode indices : plan::kIndexCodes) {
    for (const plan::ValueCode values : plan::kValueCodes) {
      for (const double density : {0.0, 0.0003, 0.01, 0.4, 1.0}) {
        const Sent sent = random_payload(indices, values, 200'003, density, 7);
        const Opened opened = open(sent.bytes, sent.envelope, sent.indices.size());
        for (const std::uint64_t chunk : {1'000'000, 65'536, 777}) {
          PayloadReader reader(opened);
          std::vector<std::uint32_t> read_indices;
          std::vector<float> read_values;
          for (std::uint64_t limit = chunk; limit < 200'003 + chunk; limit += chunk) {
            reader.read_below(limit, [&](std::uint32_t index, float value) {
              EXPECT_LT(index, limit);
              read_indices.push_back(index);
              read_values.push_back(value);
            });
          }
          EXPECT_EQ(read_indices, sent.indices) << density << ", chunks of " << chunk;
          EXPECT_EQ(read_values, sent.values) << density << ", chunks of " << chunk;
        }
      }
    }
  }
}

TEST(Payload, InTwoHalvesHasTheBytesOfOne) {
  for (const plan::ValueCode code : plan::kValueCodes) {
    const Sent sent = random_payload(plan::IndexCode::kRice, code, 50'000, 0.02, 3);
    std::mt19937_64 random(5);
    std::normal_distribution<float> normal;
    std::vector<float> values(sent.indices.size());
    for (float& value : values) value = normal(random);
    std::vector<float> same = values;
    std::vector<float> residual(50'000, 0.0F);
    std::vector<float> other(50'000, 0.0F);
    std::vector<std::byte> whole(sent.bytes.size() + 4096);
    std::vector<std::byte> stream(whole.size());
    std::vector<std::byte> around(whole.size());
    const SenderStatus status{.unsent = 3};
    const auto one =
        encode_giving_back(sent.envelope, status, sent.indices, values, residual, whole);
    const auto half = encode_values_giving_back(code, sent.indices, same, other, stream);
    const auto two = encode_around(sent.envelope, status, sent.indices, half, around);
    EXPECT_TRUE(std::ranges::equal(one, two));
    EXPECT_EQ(values, same);
    EXPECT_EQ(residual, other);
  }
}

}  // namespace
}  // namespace pliant::compress
