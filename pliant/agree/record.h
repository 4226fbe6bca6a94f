// SPDX-License-Identifier: MIT
// Control record: 64 bytes that each rank sends to all others in each round, beside the exchanges.
// Decisions are computed from these bytes and from nothing else that differs between ranks, so all
// ranks decide alike.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace pliant::agree {

inline constexpr std::uint8_t kRecordVersion = 2;

// Exchanges of a step whose times travel one by one; those beyond add up in the last.
inline constexpr std::size_t kRecordTimes = 4;

enum RecordFlags : std::uint8_t {
  kAppliedHashed = 1,    // `applied` is there
  kVoid = 2,             // an exchange of this step was void
  kSettling = 4,         // updates: this rank serves exchanges until all ranks do
  kNotFinite = 8,        // updates: this rank's progress was not finite
  kBuffersChanged = 16,  // updates: this rank's buffers are not what all ranks agree on
};

// Seconds are by this rank's own clock; a rank that came last to an exchange has its honest
// duration, so the minimum over ranks is the sample.
struct Record {
  std::uint8_t version = kRecordVersion;
  std::uint8_t flags = 0;
  std::uint16_t part = 0;     // of the model, that this rank exchanges; without islands 0
  std::uint32_t epoch = 0;    // plan version
  std::uint64_t step = 0;     // number of the round
  std::uint32_t plan = 0;     // low half of the hash of plan and units
  std::uint32_t applied = 0;  // low half of XXH3 of what this rank applied
  std::uint32_t rates = 0;    // the same of its learning rates
  float whole = 0;            // the last step, from its first bucket to this one's; 0: none yet
  float exposed = 0;          // of that, from its last bucket until everything had landed
  float lead = 0;     // of that, from the bucket whose turn it was (reported_unit) to the last one
  float coding = 0;   // select, encode, decode: of this step; updates: what that took of `whole`
  float control = 0;  // duration of the last all-gather of records; 0: none yet
  std::array<float, kRecordTimes> wire = {};  // duration of each exchange; 0: none
};
static_assert(sizeof(Record) == 64);

// Unit whose lead time is reported in this round. Units take turns; the last one has no lead.
[[nodiscard]] constexpr std::size_t reported_unit(std::uint64_t round, std::size_t units) {
  return units < 2 ? 0 : round % (units - 1);
}

// Sentence that names the rank that differs from the others in plan version, round or plan, or in
// its result from others that hold the same part; nullopt if none does.
[[nodiscard]] std::optional<std::string> disagreement(std::span<const Record> records);

// Seconds of all exchanges, each by the rank that entered it last: another exchange may have
// another one. Parts are exchanged side by side, so each exchange takes as long as its slowest
// part.
[[nodiscard]] double on_the_wire(std::span<const Record> records);

// Sentence that names the rank and value of an impossible time (negative, not a number, more than
// an hour); nullopt if all are possible.
[[nodiscard]] std::optional<std::string> nonsense(std::span<const Record> records);

}  // namespace pliant::agree
