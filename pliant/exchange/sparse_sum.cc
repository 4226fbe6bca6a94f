// SPDX-License-Identifier: MIT
#include "pliant/exchange/sparse_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "pliant/compress/trim.h"
#include "pliant/exchange/packets.h"
#include "pliant/plan/code_sizes.h"

namespace pliant::exchange {

// Which of the two is next is as good as random, so the loop that does nearly all the work decides
// without a branch.
Entries merged(const Entries& a, const Entries& b) {
  Entries sum{std::vector<std::uint32_t>(a.size() + b.size()),
              std::vector<float>(a.size() + b.size())};
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t n = 0;
  for (; i < a.size() && j < b.size(); ++n) {
    const std::uint32_t left = a.indices[i];
    const std::uint32_t right = b.indices[j];
    const float values[] = {b.values[j], a.values[i], a.values[i] + b.values[j]};
    const std::size_t from_a = left <= right ? 1 : 0;
    const std::size_t from_b = right <= left ? 1 : 0;
    sum.indices[n] = std::min(left, right);
    sum.values[n] = values[from_a + (from_a & from_b)];
    i += from_a;
    j += from_b;
  }
  const auto append = [&](const Entries& rest, std::size_t from) {
    std::copy(rest.indices.begin() + static_cast<std::ptrdiff_t>(from), rest.indices.end(),
              sum.indices.begin() + static_cast<std::ptrdiff_t>(n));
    std::copy(rest.values.begin() + static_cast<std::ptrdiff_t>(from), rest.values.end(),
              sum.values.begin() + static_cast<std::ptrdiff_t>(n));
    n += rest.size() - from;
  };
  append(a, i);
  append(b, j);
  sum.indices.resize(n);
  sum.values.resize(n);
  return sum;
}

SparseSum::SparseSum(std::vector<Entries> slices, std::vector<std::size_t> begins,
                     std::vector<std::size_t> quotas, const compress::Envelope& envelope,
                     compress::SenderStatus& status, Entries& lost, Workspace& workspace,
                     Complaint& complaint)
    : slices_(std::move(slices)),
      begins_(std::move(begins)),
      quotas_(std::move(quotas)),
      envelope_(envelope),
      status_(status),
      unsent_(quotas_.size(), status.unsent),
      lost_(lost),
      workspace_(workspace),
      complaint_(complaint) {}

compress::Envelope SparseSum::envelope_of(int b) const {
  const auto i = static_cast<std::size_t>(b);
  compress::Envelope envelope = envelope_;
  envelope.slice = static_cast<std::uint32_t>(b);
  envelope.length = static_cast<std::uint32_t>(begins_[i + 1] - begins_[i]);
  return envelope;
}

std::size_t SparseSum::bound(int b) const {
  return static_cast<std::size_t>(
      encoded_bound(envelope_of(b).length, quotas_[static_cast<std::size_t>(b)], envelope_.codes)
          .value);
}

std::vector<std::size_t> SparseSum::bounds() const {
  std::vector<std::size_t> all;
  for (std::size_t b = 0; b < slices_.size(); ++b) all.push_back(bound(static_cast<int>(b)));
  return all;
}

void SparseSum::trim(int b) {
  Entries& slice = slices_[static_cast<std::size_t>(b)];
  const std::size_t quota = quotas_[static_cast<std::size_t>(b)];
  if (slice.size() <= quota) return;
  const auto begin = static_cast<std::uint32_t>(begins_[static_cast<std::size_t>(b)]);
  compress::Cut cut =
      quota == 0 ? compress::Cut{.magnitude_bits = ~0U} : compress::find_cut(slice.values, quota);
  Entries kept;
  for (std::size_t i = 0; i < slice.size(); ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(slice.values[i]) & 0x7FFFFFFFU;
    const bool stays =
        magnitude > cut.magnitude_bits || (magnitude == cut.magnitude_bits && cut.equals > 0);
    if (stays && magnitude == cut.magnitude_bits) --cut.equals;
    if (stays) {
      kept.push(slice.indices[i], slice.values[i]);
    } else {
      lost_.push(begin + slice.indices[i], slice.values[i]);
    }
  }
  slice = std::move(kept);
}

comm::Region SparseSum::encode(int b) {
  trim(b);
  Entries& slice = slices_[static_cast<std::size_t>(b)];
  const auto begin = static_cast<std::uint32_t>(begins_[static_cast<std::size_t>(b)]);
  const comm::Region room = workspace_.take(bound(b));
  differences_.resize(slice.size());
  compress::SenderStatus status = status_;
  status.refused = status.refused || complaint_.any();
  status.unsent = unsent_[static_cast<std::size_t>(b)];
  const auto payload = compress::encode(envelope_of(b), status, slice.indices, slice.values,
                                        differences_, room.bytes);
  for (std::size_t i = 0; i < slice.size(); ++i) {
    if (differences_[i] != 0) lost_.push(begin + slice.indices[i], differences_[i]);
  }
  return {payload, room.owner};
}

comm::Region SparseSum::outgoing(const schedule::Move& move, schedule::OnArrival) {
  std::vector<comm::Region> payloads;
  for (const int b : move.blocks) {
    payloads.push_back(encode(b));
    slices_[static_cast<std::size_t>(b)].clear();  // it is the receiver's now
  }
  return pack(payloads, workspace_);
}

comm::Region SparseSum::room(const schedule::Move& move, schedule::OnArrival) {
  std::size_t bytes = 0;
  for (const int b : move.blocks) bytes += bound(b);
  return room_for(bytes, workspace_);
}

void SparseSum::arrived(const schedule::Move& move, schedule::OnArrival,
                        const comm::Region& message) {
  complaint_.attempt([&] {
    const auto payloads = unpack(message, move.blocks.size());
    for (std::size_t i = 0; i < payloads.size(); ++i) take(move.blocks[i], move.peer, payloads[i]);
  });
}

void SparseSum::take(int b, int sender, const comm::Region& payload) {
  compress::Envelope expected = envelope_of(b);
  expected.sender = static_cast<std::uint32_t>(sender);
  const compress::Opened opened =
      compress::open(payload.bytes, expected, quotas_[static_cast<std::size_t>(b)]);
  compress::merge(status_, opened.status);
  float& unsent = unsent_[static_cast<std::size_t>(b)];
  unsent = compress::header_energy(static_cast<double>(unsent) + opened.status.unsent);
  if (opened.status.refused)
    throw RefusedByPeer(fmt::format("rank {} refused what it was sent", sender));
  Entries& slice = slices_[static_cast<std::size_t>(b)];
  slice = merged(slice, decode(opened));
  for (float& value : slice.values) {
    if (std::isfinite(value)) continue;
    value = 0;
    status_.non_finite = true;
  }
}

}  // namespace pliant::exchange
