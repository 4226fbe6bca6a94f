// SPDX-License-Identifier: MIT
// Prints payloads with what they say, as JSON, for payload_golden_test.py. `small`: the cases of
// tests/golden/payloads.json, which is this output and must stay so: version 3 never changes.
// `large`: several blocks and groups.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstdio>
#include <string_view>

#include "tests/support/payload_samples.h"

namespace pliant::compress {
namespace {

// The same numbers with every compiler and library.
class Numbers {
 public:
  std::uint32_t next() {
    return static_cast<std::uint32_t>(
        (state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL) >> 32);
  }

 private:
  std::uint64_t state_ = 1;
};

Entries entries_of(Numbers& numbers, std::uint32_t length, std::size_t count) {
  Entries entries;
  for (std::uint32_t i = 0; i < length && entries.indices.size() < count; ++i) {
    if (numbers.next() % length >= count) continue;
    const float value = static_cast<float>(static_cast<std::int32_t>(numbers.next())) * 0x1p-33F;
    entries.indices.push_back(i);
    entries.values.push_back(numbers.next() % 16 == 0 ? value * 0x1p-30F : value);
  }
  return entries;
}

void print_case(const Envelope& envelope, SenderStatus status, Entries entries, bool first) {
  const auto bytes = encoded(envelope, entries, status);
  std::string hex;
  for (const std::byte b : bytes) hex += fmt::format("{:02x}", static_cast<unsigned>(b));
  std::vector<std::uint32_t> value_bits;
  for (const float value : entries.values)
    value_bits.push_back(std::bit_cast<std::uint32_t>(value));
  if (envelope.contents == plan::Contents::kIndices) value_bits.clear();
  if (envelope.contents == plan::Contents::kValues) entries.indices.clear();
  fmt::print(
      "{}\n {{\"indices\": [{}], \"value_bits\": [{}], \"contents\": {}, \"non_finite\": {}, "
      "\"refused\": {},\n  \"header\": ",
      first ? "" : ",", fmt::join(entries.indices, ", "), fmt::join(value_bits, ", "),
      static_cast<int>(envelope.contents), status.non_finite, status.refused);
  fmt::print(
      "{{\"step\": {}, \"epoch\": {}, \"bucket\": {}, \"slice\": {}, \"sender\": {}, \"length\": "
      "{}, \"voted\": {}, \"unsent\": {}, "
      "\"vote\": {}}},\n  \"bytes\": \"{}\"}}",
      envelope.round, envelope.plan_version, envelope.bucket, envelope.slice, envelope.sender,
      envelope.length, status.voted, status.unsent, status.vote, hex);
}

void print_cases(std::uint32_t length, std::size_t count) {
  Numbers numbers;
  fmt::print("[");
  std::uint32_t number = 0;
  for (const auto contents :
       {plan::Contents::kBoth, plan::Contents::kIndices, plan::Contents::kValues}) {
    for (const plan::IndexCode indices : plan::kIndexCodes) {
      for (const plan::ValueCode values : plan::kValueCodes) {
        const bool empty = number % 7 == 3;
        const Envelope envelope{.round = (1ULL << 40) + number,
                                .plan_version = 1000 + number,
                                .bucket = 100 + number,
                                .slice = number % 3,
                                .sender = number % 5,
                                .length = length + number,
                                .codes = {indices, values},
                                .contents = contents};
        const SenderStatus status{.non_finite = number % 4 == 1,
                                  .refused = empty,
                                  .unsent = 0.5F * static_cast<float>(number),
                                  .vote = 0.25F * static_cast<float>(number),
                                  .voted = static_cast<std::uint16_t>(60000 + number)};
        print_case(envelope, status, entries_of(numbers, envelope.length, empty ? 0 : count),
                   number == 0);
        ++number;
      }
    }
  }
  fmt::print("\n]\n");
}

}  // namespace
}  // namespace pliant::compress

int main(int argc, char** argv) {
  const std::string_view size = argc == 2 ? argv[1] : "";
  if (size != "small" && size != "large") {
    std::fputs("usage: payload_golden small|large\n", stderr);
    return 2;
  }
  if (size == "small") {
    pliant::compress::print_cases(90, 5);
  } else {
    pliant::compress::print_cases(200'000, 2500);
  }
}
