// SPDX-License-Identifier: MIT
// Decodes bytes that anyone may have made up, and says whether they were accepted; traps if the
// decoder breaks its word. Shared by the mutation test and the fuzz target.
#pragma once

#include <cmath>
#include <cstdlib>
#include <span>
#include <vector>

#include "pliant/compress/payload.h"

namespace pliant::compress {

// Large enough for every index code to have several blocks and groups, small enough to be quick.
inline constexpr std::uint32_t kHostileLength = 140'000;
inline constexpr std::size_t kHostileMost = 3000;

// The envelope a decoder expects in round `choice` of all combinations of codes and contents.
inline Envelope hostile_envelope(unsigned choice) {
  const auto contents = static_cast<plan::Contents>(1 + choice / 12 % 3);
  const plan::Codes codes{plan::kIndexCodes.at(choice % 3), plan::kValueCodes.at(choice / 3 % 4)};
  return {.round = 40,
          .plan_version = 17,
          .bucket = 2,
          .slice = 1,
          .sender = 3,
          .length = kHostileLength,
          .codes = codes,
          .contents = contents};
}

// Memory of the exact size the contract asks for, reused: a decoder that writes beyond it is caught
// by AddressSanitizer.
class HostileDecoder {
 public:
  // True if accepted. Whatever is accepted must be a selection: in order, in range, finite, no more
  // than asked for.
  bool accepts(std::span<const std::byte> bytes, const Envelope& expected) {
    try {
      const Decoded decoded = decode(bytes, expected, indices_, values_);
      demand(decoded.indices.size() <= kHostileMost && decoded.values.size() <= kHostileMost);
      for (std::size_t i = 0; i < decoded.indices.size(); ++i) {
        demand(decoded.indices[i] < kHostileLength &&
               (i == 0 || decoded.indices[i - 1] < decoded.indices[i]));
      }
      for (const float value : decoded.values) demand(std::isfinite(value));
      return true;
    } catch (const PayloadError&) {
      return false;
    }
  }

 private:
  static void demand(bool holds) {
    if (!holds) std::abort();
  }

  std::vector<std::uint32_t> indices_ = std::vector<std::uint32_t>(kHostileMost);
  std::vector<float> values_ = std::vector<float>(kHostileMost);
};

}  // namespace pliant::compress
