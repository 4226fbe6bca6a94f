// SPDX-License-Identifier: MIT
// Payloads to try things on: random entries and their wire form.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "pliant/common/hash.h"
#include "pliant/compress/payload.h"

namespace pliant::compress {

struct Entries {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

// Each of `length` places is taken with probability `density`; values are Gaussian.
inline Entries random_entries(std::mt19937& random, std::uint32_t length, double density) {
  Entries entries;
  std::normal_distribution<float> gauss;
  if (density <= 0) return entries;
  std::geometric_distribution<std::uint64_t> gap(std::min(density, 0.999999));
  for (std::uint64_t at = gap(random); at < length; at += 1 + gap(random)) {
    entries.indices.push_back(static_cast<std::uint32_t>(at));
    entries.values.push_back(gauss(random));
  }
  return entries;
}

// The payload, at its exact size. `entries.values` become the decoded ones; `differences`, if asked
// for, what they lost.
inline std::vector<std::byte> encoded(const Envelope& envelope, Entries& entries,
                                      SenderStatus status = {},
                                      std::vector<float>* differences = nullptr) {
  const bool values = envelope.contents != plan::Contents::kIndices;
  const bool indices = envelope.contents != plan::Contents::kValues;
  std::vector<float> lost(values ? entries.values.size() : 0);
  std::vector<std::byte> out(
      static_cast<std::size_t>(plan::encoded_bound(envelope.length, entries.indices.size(),
                                                   envelope.codes, envelope.contents)
                                   .value));
  const auto payload = encode(
      envelope, status,
      indices ? std::span<const std::uint32_t>(entries.indices) : std::span<const std::uint32_t>(),
      values ? std::span(entries.values) : std::span<float>(), lost, out);
  out.resize(payload.size());
  if (differences != nullptr) *differences = lost;
  return out;
}

// Computes the checksum anew, as if a sender had meant these bytes: what is then refused is refused
// for its content.
inline void sign(std::span<std::byte> bytes) {
  if (bytes.size() < plan::kPayloadHeaderBytes) return;
  std::uint64_t seed;
  std::array<std::uint32_t, 2> stream_words;
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  std::memcpy(&stream_words, bytes.data() + 48, sizeof(stream_words));
  const std::size_t streams = 8 * (std::size_t{stream_words[0]} + stream_words[1]);
  if (streams > bytes.size() - plan::kPayloadHeaderBytes) return;
  const std::uint64_t checksum = hash(bytes.subspan(16, 48 + streams), seed);
  std::memcpy(bytes.data() + 8, &checksum, sizeof(checksum));
}

}  // namespace pliant::compress
