// SPDX-License-Identifier: MIT
// Payload: a selection in wire form, with a header of 64 bytes, an index stream and a value stream.
// docs/formats/payload.md describes every byte. Both sides know beforehand what a payload is for
// (its Envelope): the sender writes it down, the receiver compares. Nothing here allocates; sizes
// come from plan/code_sizes.h, memory from the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "pliant/plan/code_sizes.h"

namespace pliant::compress {

inline constexpr std::uint8_t kPayloadVersion = 3;

// Identity of a payload, on which both sides agree before a byte moves.
struct Envelope {
  std::uint64_t round = 0;
  std::uint32_t plan_version = 0;
  std::uint32_t bucket = 0;  // or chunk
  std::uint32_t slice = 0;   // of the bucket, where it travels in slices; else 0
  std::uint32_t sender = 0;  // rank, below 65536
  std::uint32_t length = 0;  // of the span that indices point into
  plan::Codes codes;
  plan::Contents contents = plan::Contents::kBoth;
};

// Expects no particular sender: where a sum is passed on, the payload's sender is the rank that
// completed it.
inline constexpr std::uint32_t kAnySender = ~std::uint32_t{0};

// Status that the sender reports in the header, besides its entries. Where payloads are added on
// the way, so are these.
struct SenderStatus {
  bool non_finite = false;  // a contribution had an entry that is not finite; such an entry is
                            // never among the values
  bool refused = false;     // a rank refused a payload: the exchange has failed
  float unsent = 0;         // energy that was accumulated and not sent
  float vote = 0;  // for the next leader: the energy of the largest entries of rank `voted`
  std::uint16_t voted = 0;
  bool operator==(const SenderStatus&) const = default;
};

// An energy as a header can hold it, from 0 to the largest float. A SenderStatus has no other
// energies, so that a rank uses of itself what the others read.
[[nodiscard]] float header_energy(double energy);

// Sets the flags that either has and takes the larger vote (the lower rank's of equals). Merging
// twice changes nothing. `unsent` is not merged: the rank that adds payloads sums it.
void merge(SenderStatus& into, const SenderStatus& other);

// A payload that must not be used. field() names the wrong field as docs/formats/payload.md does.
class PayloadError : public std::runtime_error {
 public:
  PayloadError(std::string field, const std::string& text)
      : std::runtime_error(text), field_(std::move(field)) {}
  [[nodiscard]] const std::string& field() const { return field_; }

 private:
  std::string field_;
};

// The bytes are not a payload that any sender wrote.
class CorruptPayload : public PayloadError {
  using PayloadError::PayloadError;
};

// A valid payload, but not the expected one: another plan version, round, sender, format version
// and so on. The text has both values.
class PayloadMismatch : public PayloadError {
  using PayloadError::PayloadError;
};

// --- writing ---

// Writes a payload to the start of `out` and returns that part. `out` must have plan::encoded_bound
// bytes; any alignment. `indices` are strictly increasing and below the envelope's length, `values`
// finite and as many (ContractError, before anything is changed). On return `values` are what every
// receiver will decode, and `differences` what rounding took away: old value == new value +
// difference, exactly. `differences` may be empty with f32, which takes nothing away.
// Contents::kIndices: values and differences are empty. Contents::kValues: indices may be empty;
// they are not written.
std::span<std::byte> encode(const Envelope& envelope, SenderStatus status,
                            std::span<const std::uint32_t> indices, std::span<float> values,
                            std::span<float> differences, std::span<std::byte> out);

// The same, and each difference is added to residual[index] at once. The sum is exact wherever the
// residual was zero, as it is at entries that a selection has just taken out; one that would
// overflow stays at the largest finite number. `indices` are needed also with Contents::kValues.
std::span<std::byte> encode_giving_back(const Envelope& envelope, SenderStatus status,
                                        std::span<const std::uint32_t> indices,
                                        std::span<float> values, std::span<float> residual,
                                        std::span<std::byte> out);

// The same in two halves, for a sender that rounds its values on one thread and writes the payload
// on another. First the value stream, to the start of `out` (plan::value_stream_bytes).
std::span<std::byte> encode_values_giving_back(plan::ValueCode code,
                                               std::span<const std::uint32_t> indices,
                                               std::span<float> values, std::span<float> residual,
                                               std::span<std::byte> out);
// Then the payload around it.
std::span<std::byte> encode_around(const Envelope& envelope, SenderStatus status,
                                   std::span<const std::uint32_t> indices,
                                   std::span<const std::byte> value_stream,
                                   std::span<std::byte> out);

// --- reading ---

// A payload whose header, lengths, checksum and envelope have been checked; its streams not yet.
// Refers to the bytes.
struct Opened {
  Envelope envelope;
  SenderStatus status;
  std::uint32_t count = 0;
  std::span<const std::byte> index_stream;
  std::span<const std::byte> value_stream;
  std::size_t bytes = 0;  // of the whole payload
};

// The length of the payload at the start of `bytes`, as its header says and no more than there is:
// what to pass on. CorruptPayload or PayloadMismatch (version) if this is not the start of a
// payload. The checksum is not looked at.
[[nodiscard]] std::size_t payload_bytes(std::span<const std::byte> bytes);

// `bytes` may be longer than the payload (a receive buffer with room to spare). At most `most`
// entries are accepted. Throws CorruptPayload or PayloadMismatch.
[[nodiscard]] Opened open(std::span<const std::byte> bytes, const Envelope& expected,
                          std::size_t most);

// The entries, into the start of `out`, which must have room for opened.count (ContractError).
// Throws CorruptPayload unless indices are strictly increasing and below the length, and values
// finite; `out` is then meaningless, but nothing outside it was written. Each returns the part that
// was filled; empty if the payload has no such stream.
std::span<std::uint32_t> decode_indices(const Opened& opened, std::span<std::uint32_t> out);
std::span<float> decode_values(const Opened& opened, std::span<float> out);

struct Decoded {
  SenderStatus status;
  std::span<std::uint32_t> indices;
  std::span<float> values;
};

// All three at once: opens and decodes both streams. Accepts as many entries as the smaller of the
// spans that are needed.
[[nodiscard]] Decoded decode(std::span<const std::byte> bytes, const Envelope& expected,
                             std::span<std::uint32_t> indices, std::span<float> values);

}  // namespace pliant::compress
