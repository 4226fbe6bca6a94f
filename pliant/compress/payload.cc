// SPDX-License-Identifier: MIT
#include "pliant/compress/payload.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/compress/index_stream.h"
#include "pliant/compress/residual.h"
#include "pliant/compress/value_stream.h"

namespace pliant::compress {
namespace {

using plan::Contents;

// The header as it lies in the message; the format is little-endian and so must be the machine.
static_assert(std::endian::native == std::endian::little,
              "a header is copied as it is in memory, and the format is little-endian");
struct WireHeader {
  std::array<char, 4> magic;
  std::uint8_t version;
  std::uint8_t index_code;
  std::uint8_t value_code;
  std::uint8_t flags;
  std::uint64_t checksum;
  std::uint64_t step;
  std::uint32_t epoch;
  std::uint32_t bucket;
  std::uint32_t slice;
  std::uint16_t sender;
  std::uint16_t voted;
  std::uint32_t length;
  std::uint32_t count;
  std::uint32_t index_words;  // streams are padded to words of 8 bytes
  std::uint32_t value_words;
  float unsent;
  float vote;

  [[nodiscard]] std::uint64_t index_bytes() const { return 8ULL * index_words; }
  [[nodiscard]] std::uint64_t value_bytes() const { return 8ULL * value_words; }
};
static_assert(sizeof(WireHeader) == plan::kPayloadHeaderBytes && offsetof(WireHeader, vote) == 60);

constexpr std::array<char, 4> kMagic = {'P', 'L', 'P', 'L'};
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr std::size_t kCheckedFrom =
    16;  // the checksum covers everything from here on, seeded with the 8 bytes before it

// The lowest two bits of the flags are plan::Contents.
constexpr std::uint8_t kContentsBits = 3;
constexpr std::uint8_t kNonFiniteBit = 4;
constexpr std::uint8_t kRefusedBit = 8;

bool has_indices(Contents contents) { return contents != Contents::kValues; }
bool has_values(Contents contents) { return contents != Contents::kIndices; }

std::uint64_t checksum_of(std::span<const std::byte> payload) {
  std::uint64_t seed;
  std::memcpy(&seed, payload.data(), sizeof(seed));
  return hash(payload.subspan(kCheckedFrom), seed);
}

// --- writing ---

void require_encodable(const Envelope& envelope, std::size_t count,
                       std::span<const std::uint32_t> indices, std::span<const std::byte> out) {
  const auto room = static_cast<std::size_t>(
      plan::kPayloadHeaderBytes +
      (has_indices(envelope.contents)
           ? plan::index_stream_bound(envelope.codes.indices, envelope.length,
                                      std::min<std::size_t>(count, envelope.length))
           : 0) +
      (has_values(envelope.contents) ? plan::value_stream_bytes(envelope.codes.values, count) : 0));
  require(envelope.sender < 65536, "encode: sender {}, ranks are below 65536", envelope.sender);
  require(count <= envelope.length, "encode: {} entries of a span of {}", count, envelope.length);
  require(indices.size() == count || (indices.empty() && !has_indices(envelope.contents)),
          "encode: {} indices for {} values", indices.size(), count);
  require(out.size() >= room, "encode: {} bytes of room, {} may be needed", out.size(), room);
  require_sorted(indices, envelope.length);
}

// `write_value_stream(end)` writes the values, if the payload has any, and returns the bytes.
template <typename WriteValues>
std::span<std::byte> write(const Envelope& envelope, SenderStatus status, std::size_t count,
                           std::span<const std::uint32_t> indices, std::span<std::byte> out,
                           WriteValues write_value_stream) {
  WireHeader header{};
  header.magic = kMagic;
  header.version = kPayloadVersion;
  header.flags = static_cast<std::uint8_t>(static_cast<unsigned>(envelope.contents) |
                                           (status.non_finite ? kNonFiniteBit : 0U) |
                                           (status.refused ? kRefusedBit : 0U));
  header.step = envelope.round;
  header.epoch = envelope.plan_version;
  header.bucket = envelope.bucket;
  header.slice = envelope.slice;
  header.sender = static_cast<std::uint16_t>(envelope.sender);
  header.voted = status.voted;
  header.unsent = header_energy(status.unsent);
  header.vote = header_energy(status.vote);
  header.length = envelope.length;
  header.count = static_cast<std::uint32_t>(count);
  std::byte* end = out.data() + sizeof(header);
  if (has_indices(envelope.contents)) {
    header.index_code = static_cast<std::uint8_t>(envelope.codes.indices);
    header.index_words = static_cast<std::uint32_t>(
        write_indices(envelope.codes.indices, envelope.length, indices, end) / 8);
    end += header.index_bytes();
  }
  if (has_values(envelope.contents)) {
    header.value_code = static_cast<std::uint8_t>(envelope.codes.values);
    header.value_words = static_cast<std::uint32_t>(write_value_stream(end) / 8);
    end += header.value_bytes();
  }
  const std::span<std::byte> payload(out.data(), end);
  std::memcpy(out.data(), &header, sizeof(header));
  header.checksum = checksum_of(payload);
  std::memcpy(out.data(), &header, sizeof(header));
  return payload;
}

std::span<std::byte> write(const Envelope& envelope, SenderStatus status,
                           std::span<const std::uint32_t> indices, std::span<float> values,
                           const OnDifferences& on_differences, std::span<std::byte> out) {
  const std::size_t count = has_values(envelope.contents) ? values.size() : indices.size();
  require(values.size() == count || (values.empty() && !has_values(envelope.contents)),
          "encode: {} values for {} indices", values.size(), count);
  require_encodable(envelope, count, indices, out);
  require_finite(values);
  return write(envelope, status, count, indices, out, [&](std::byte* end) {
    return write_values(envelope.codes.values, values, end, on_differences);
  });
}

// --- reading ---

std::string described(const Envelope& e) {
  return fmt::format("payload of rank {}, plan version {}, round {}, bucket {}, slice {}", e.sender,
                     e.plan_version, e.round, e.bucket, e.slice);
}

// Throws with the payload's description, which is only known inside open.
struct Judge {
  std::string subject;

  template <typename... Args>
  void check(bool holds, const char* field, fmt::format_string<Args...> text,
             Args&&... args) const {
    if (!holds)
      throw CorruptPayload(field, fmt::format("{}: corrupt {}: {}", subject, field,
                                              fmt::format(text, std::forward<Args>(args)...)));
  }
  // `name`: what people call the field, where the format has another word.
  template <typename T>
  void match(const char* field, const T& found, const T& expected,
             const char* name = nullptr) const {
    if (found != expected)
      throw PayloadMismatch(field, fmt::format("{}: {} is {}, expected {}", subject,
                                               name != nullptr ? name : field, found, expected));
  }
};

// Magic, version, and lengths that lie inside `bytes`.
WireHeader read_header(std::span<const std::byte> bytes, const Judge& judge) {
  WireHeader header;
  judge.check(bytes.size() >= sizeof(header), "size", "{} bytes, the header alone has {}",
              bytes.size(), sizeof(header));
  std::memcpy(&header, bytes.data(), sizeof(header));
  judge.check(header.magic == kMagic, "magic", "not the start of a payload");
  judge.match<int>("version", header.version, kPayloadVersion);
  const std::size_t room = bytes.size() - sizeof(header);
  judge.check(header.index_bytes() <= room, "index_words", "{}, only {} arrived",
              header.index_bytes(), room);
  judge.check(header.value_bytes() <= room - header.index_bytes(), "value_words",
              "{}, only {} arrived", header.value_bytes(), room - header.index_bytes());
  return header;
}

std::size_t total_bytes(const WireHeader& header) {
  return sizeof(header) + header.index_bytes() + header.value_bytes();
}

void check_codes(const WireHeader& header, const Judge& judge) {
  const auto contents = header.flags & kContentsBits;
  judge.check(contents != 0 && header.flags < 2 * kRefusedBit, "flags", "{:#x}", header.flags);
  // Written as comparisons that a NaN fails.
  judge.check(header.unsent >= 0 && header.unsent <= kLargest, "unsent", "{}", header.unsent);
  judge.check(header.vote >= 0 && header.vote <= kLargest, "vote", "{}", header.vote);
  judge.check(header.index_code < plan::kIndexCodes.size(), "index_code", "{}", header.index_code);
  judge.check(header.value_code < plan::kValueCodes.size(), "value_code", "{}", header.value_code);
}

void check_expected(const WireHeader& header, const Envelope& expected, const Judge& judge) {
  judge.match("epoch", header.epoch, expected.plan_version, "plan version");
  judge.match("step", header.step, expected.round, "round");
  judge.match("bucket", header.bucket, expected.bucket);
  judge.match("slice", header.slice, expected.slice);
  if (expected.sender != kAnySender)
    judge.match<std::uint32_t>("sender", header.sender, expected.sender);
  judge.match("length", header.length, expected.length);
  judge.match<int>("contents", header.flags & kContentsBits, static_cast<int>(expected.contents));
  judge.match<int>("index_code", header.index_code,
                   has_indices(expected.contents) ? static_cast<int>(expected.codes.indices) : 0);
  judge.match<int>("value_code", header.value_code,
                   has_values(expected.contents) ? static_cast<int>(expected.codes.values) : 0);
}

void check_sizes(const WireHeader& header, const Envelope& expected, std::size_t most,
                 const Judge& judge) {
  judge.check(header.count <= header.length, "count", "{} entries of a span of {}", header.count,
              header.length);
  judge.check(header.count <= most, "count", "{} entries, at most {} are expected", header.count,
              most);
  const std::uint64_t indices =
      has_indices(expected.contents)
          ? plan::index_stream_bound(expected.codes.indices, header.length, header.count)
          : 0;
  const std::uint64_t values = has_values(expected.contents)
                                   ? plan::value_stream_bytes(expected.codes.values, header.count)
                                   : 0;
  const bool exact = expected.codes.indices != plan::IndexCode::kRice;
  judge.check(exact ? header.index_bytes() == indices : header.index_bytes() <= indices,
              "index_words", "{} for {} entries of {}, {} {}", header.index_bytes(), header.count,
              header.length, exact ? "must be" : "at most", indices);
  judge.check(header.value_bytes() == values, "value_words", "{} for {} entries, must be {}",
              header.value_bytes(), header.count, values);
}

}  // namespace

float header_energy(double energy) {
  return energy < kLargest ? std::max(static_cast<float>(energy), 0.0F) : kLargest;
}

void merge(SenderStatus& into, const SenderStatus& other) {
  into.non_finite = into.non_finite || other.non_finite;
  into.refused = into.refused || other.refused;
  if (other.vote > into.vote || (other.vote == into.vote && other.voted < into.voted)) {
    into.vote = other.vote;
    into.voted = other.voted;
  }
}

std::span<std::byte> encode(const Envelope& envelope, SenderStatus status,
                            std::span<const std::uint32_t> indices, std::span<float> values,
                            std::span<float> differences, std::span<std::byte> out) {
  const bool exact = envelope.codes.values == plan::ValueCode::kF32;
  require(differences.size() == values.size() || (differences.empty() && exact),
          "encode: {} differences for {} values", differences.size(), values.size());
  const auto payload = write(
      envelope, status, indices, values,
      [&](std::size_t begin, std::span<const float> part) {
        std::copy(part.begin(), part.end(), differences.begin() + begin);
      },
      out);
  if (exact) std::fill(differences.begin(), differences.end(), 0.0F);
  return payload;
}

std::span<std::byte> encode_giving_back(const Envelope& envelope, SenderStatus status,
                                        std::span<const std::uint32_t> indices,
                                        std::span<float> values, std::span<float> residual,
                                        std::span<std::byte> out) {
  require(residual.size() == envelope.length, "encode: a residual of {} for a span of {}",
          residual.size(), envelope.length);
  require(indices.size() == values.size() || !has_values(envelope.contents),
          "encode: {} indices for {} values", indices.size(), values.size());
  return write(
      envelope, status, indices, values,
      [&](std::size_t begin, std::span<const float> part) {
        put_back(residual, indices.subspan(begin, part.size()), part);
      },
      out);
}

std::span<std::byte> encode_values_giving_back(plan::ValueCode code,
                                               std::span<const std::uint32_t> indices,
                                               std::span<float> values, std::span<float> residual,
                                               std::span<std::byte> out) {
  require(indices.size() == values.size(), "encode: {} indices for {} values", indices.size(),
          values.size());
  require(out.size() >= plan::value_stream_bytes(code, values.size()),
          "encode: {} bytes of room for {} values", out.size(), values.size());
  require_finite(values);
  const std::size_t bytes =
      write_values(code, values, out.data(), [&](std::size_t begin, std::span<const float> part) {
        put_back(residual, indices.subspan(begin, part.size()), part);
      });
  return out.first(bytes);
}

std::span<std::byte> encode_around(const Envelope& envelope, SenderStatus status,
                                   std::span<const std::uint32_t> indices,
                                   std::span<const std::byte> value_stream,
                                   std::span<std::byte> out) {
  require(envelope.contents == Contents::kBoth, "encode: a payload without values or indices");
  require(value_stream.size() == plan::value_stream_bytes(envelope.codes.values, indices.size()),
          "encode: {} bytes of values for {} indices", value_stream.size(), indices.size());
  require_encodable(envelope, indices.size(), indices, out);
  return write(envelope, status, indices.size(), indices, out, [&](std::byte* end) {
    std::ranges::copy(value_stream, end);
    return value_stream.size();
  });
}

std::size_t payload_bytes(std::span<const std::byte> bytes) {
  return total_bytes(read_header(bytes, {"payload"}));
}

Opened open(std::span<const std::byte> bytes, const Envelope& expected, std::size_t most) {
  const Judge judge{described(expected)};
  const WireHeader header = read_header(bytes, judge);
  const auto payload = bytes.first(total_bytes(header));
  const std::uint64_t checksum = checksum_of(payload);
  judge.check(header.checksum == checksum, "checksum", "{:016x}, computed {:016x}", header.checksum,
              checksum);
  check_codes(header, judge);
  check_expected(header, expected, judge);
  check_sizes(header, expected, most, judge);
  return {.envelope = expected,
          .status = {.non_finite = (header.flags & kNonFiniteBit) != 0,
                     .refused = (header.flags & kRefusedBit) != 0,
                     .unsent = header.unsent,
                     .vote = header.vote,
                     .voted = header.voted},
          .count = header.count,
          .index_stream = payload.subspan(sizeof(header), header.index_bytes()),
          .value_stream = payload.subspan(sizeof(header) + header.index_bytes()),
          .bytes = payload.size()};
}

std::span<std::uint32_t> decode_indices(const Opened& opened, std::span<std::uint32_t> out) {
  if (!has_indices(opened.envelope.contents)) return {};
  require(out.size() >= opened.count, "decode_indices: room for {}, the payload has {}", out.size(),
          opened.count);
  const auto indices = out.first(opened.count);
  const char* fault = read_indices(opened.envelope.codes.indices, opened.envelope.length,
                                   opened.index_stream, indices);
  if (fault != nullptr) Judge{described(opened.envelope)}.check(false, "index stream", "{}", fault);
  return indices;
}

std::span<float> decode_values(const Opened& opened, std::span<float> out) {
  if (!has_values(opened.envelope.contents)) return {};
  require(out.size() >= opened.count, "decode_values: room for {}, the payload has {}", out.size(),
          opened.count);
  const auto values = out.first(opened.count);
  const char* fault = read_values(opened.envelope.codes.values, opened.value_stream, values);
  if (fault != nullptr) Judge{described(opened.envelope)}.check(false, "value stream", "{}", fault);
  return values;
}

Decoded decode(std::span<const std::byte> bytes, const Envelope& expected,
               std::span<std::uint32_t> indices, std::span<float> values) {
  std::size_t most = expected.length;
  if (has_indices(expected.contents)) most = std::min(most, indices.size());
  if (has_values(expected.contents)) most = std::min(most, values.size());
  const Opened opened = open(bytes, expected, most);
  return {.status = opened.status,
          .indices = decode_indices(opened, indices),
          .values = decode_values(opened, values)};
}

}  // namespace pliant::compress
