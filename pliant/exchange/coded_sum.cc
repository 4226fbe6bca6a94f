// SPDX-License-Identifier: MIT
#include "pliant/exchange/coded_sum.h"

#include <fmt/format.h>

#include "pliant/common/split.h"
#include "pliant/exchange/packets.h"
#include "pliant/plan/code_sizes.h"

namespace pliant::exchange {

CodedSum::CodedSum(std::span<float> values, std::span<float> banked, std::size_t most, int count,
                   const compress::Envelope& envelope, compress::SenderStatus& status,
                   Workspace& workspace, Complaint& complaint)
    : values_(values),
      banked_(banked),
      begins_(split_points(values.size(), static_cast<std::size_t>(count))),
      most_per_block_(most / static_cast<std::size_t>(count) + 1),
      envelope_(envelope),
      status_(status),
      unsent_(static_cast<std::size_t>(count), status.unsent),
      complete_(static_cast<std::size_t>(count)),
      workspace_(workspace),
      complaint_(complaint) {
  envelope_.contents = plan::Contents::kValues;
}

std::span<float> CodedSum::block(std::span<float> of, int b) const {
  const auto i = static_cast<std::size_t>(b);
  return of.subspan(begins_[i], begins_[i + 1] - begins_[i]);
}

compress::Envelope CodedSum::envelope_of(int b) const {
  compress::Envelope envelope = envelope_;
  envelope.slice = static_cast<std::uint32_t>(b);
  envelope.length = static_cast<std::uint32_t>(block(values_, b).size());
  return envelope;
}

comm::Region CodedSum::encode(int b) {
  const compress::Envelope envelope = envelope_of(b);
  const auto mine = block(values_, b);
  const auto banked = block(banked_, b);
  const comm::Region room = workspace_.take(static_cast<std::size_t>(
      encoded_bound(envelope.length, mine.size(), envelope.codes, envelope.contents).value));
  differences_.resize(mine.size());
  compress::SenderStatus status = status_;
  status.refused = status.refused || complaint_.any();
  status.unsent = unsent_[static_cast<std::size_t>(b)];
  const auto payload = compress::encode(envelope, status, {}, mine, differences_, room.bytes);
  for (std::size_t i = 0; i < mine.size(); ++i) banked[i] += differences_[i];
  return {payload, room.owner};
}

comm::Region CodedSum::outgoing(const schedule::Move& move, schedule::OnArrival on_arrival) {
  std::vector<comm::Region> payloads;
  for (const int b : move.blocks) {
    if (on_arrival == schedule::OnArrival::kCombine) {
      payloads.push_back(encode(b));
      continue;
    }
    auto& complete = complete_[static_cast<std::size_t>(b)];
    if (!complete) complete = encode(b);
    payloads.push_back(*complete);
  }
  return pack(payloads, workspace_);
}

comm::Region CodedSum::room(const schedule::Move& move, schedule::OnArrival) {
  const Bytes each =
      encoded_bound(most_per_block_, most_per_block_, envelope_.codes, plan::Contents::kValues);
  return room_for(move.blocks.size() * static_cast<std::size_t>(each.value), workspace_);
}

void CodedSum::arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
                       const comm::Region& message) {
  complaint_.attempt([&] {
    const auto payloads = unpack(message, move.blocks.size());
    for (std::size_t i = 0; i < payloads.size(); ++i) take(move.blocks[i], on_arrival, payloads[i]);
  });
}

void CodedSum::take(int b, schedule::OnArrival on_arrival, const comm::Region& payload) {
  const auto mine = block(values_, b);
  compress::Envelope expected = envelope_of(b);
  expected.sender = compress::kAnySender;
  const compress::Opened opened = compress::open(payload.bytes, expected, mine.size());
  if (on_arrival == schedule::OnArrival::kCopy) complete_[static_cast<std::size_t>(b)] = payload;
  compress::merge(status_, opened.status);
  const bool combine = on_arrival == schedule::OnArrival::kCombine;
  float& unsent = unsent_[static_cast<std::size_t>(b)];
  unsent = compress::header_energy(static_cast<double>(opened.status.unsent) +
                                   (combine ? unsent : 0.0F));
  if (b == 0) status_.unsent = unsent;
  if (opened.status.refused)
    throw RefusedByPeer("a rank of this exchange refused what it was sent");
  if (opened.count != mine.size()) {
    throw compress::CorruptPayload(
        "count", fmt::format("block {}: corrupt count: {} values instead of {}", b, opened.count,
                             mine.size()));
  }
  if (!combine) {
    (void)compress::decode_values(opened, mine);
    return;
  }
  scratch_.resize(mine.size());
  const auto theirs = compress::decode_values(opened, scratch_);
  bool overflow = false;  // without a branch: the compiler makes SIMD of it
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const float sum = mine[i] + theirs[i];
    const bool finite = sum - sum == 0;
    mine[i] = finite ? sum : 0;
    overflow |= !finite;
  }
  status_.non_finite = status_.non_finite || overflow;
}

}  // namespace pliant::exchange
