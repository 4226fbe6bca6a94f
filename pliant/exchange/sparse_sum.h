// SPDX-License-Identifier: MIT
// SparseSum: the blocks of a sparse reduce-scatter. Block b holds entries of slice b, and adding
// two blocks merges them. A sum that exceeds the quota on the way is trimmed; the rank that trims
// or rounds keeps the difference.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pliant/compress/payload.h"
#include "pliant/exchange/complaint.h"
#include "pliant/exchange/entries.h"
#include "pliant/exchange/run.h"
#include "pliant/exchange/workspace.h"

namespace pliant::exchange {

// The sum of two selections of one span.
[[nodiscard]] Entries merged(const Entries& a, const Entries& b);

class SparseSum final : public Blocks {
 public:
  // slices[b]: this rank's entries of slice b, whose length is begins[b + 1] - begins[b], indices
  // from its begin. At most `quotas[b]` entries of it travel. Trimmed and rounded amounts go to
  // `lost`, with indices of the whole group.
  SparseSum(std::vector<Entries> slices, std::vector<std::size_t> begins,
            std::vector<std::size_t> quotas, const compress::Envelope& envelope,
            compress::SenderStatus& status, Entries& lost, Workspace& workspace,
            Complaint& complaint);

  comm::Region outgoing(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  comm::Region room(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  void arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
               const comm::Region& message) override;
  void refuse(const std::string& why) override { complaint_.refuse(why); }

  // Slice b as it is now, trimmed and in wire form. Its owner sends it to all ranks in the end.
  [[nodiscard]] comm::Region encode(int b);
  [[nodiscard]] compress::Envelope envelope_of(int b) const;
  [[nodiscard]] std::vector<std::size_t> bounds() const;  // of each slice's payload

 private:
  void trim(int b);
  [[nodiscard]] std::size_t bound(int b) const;
  void take(int b, int sender, const comm::Region& payload);

  std::vector<Entries> slices_;
  std::vector<std::size_t> begins_;
  std::vector<std::size_t> quotas_;
  compress::Envelope envelope_;
  compress::SenderStatus& status_;
  std::vector<float> unsent_;  // by slice: of those whose entries are in it
  Entries& lost_;
  std::vector<float> differences_;
  Workspace& workspace_;
  Complaint& complaint_;
};

}  // namespace pliant::exchange
