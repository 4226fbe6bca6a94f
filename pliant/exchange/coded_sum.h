// SPDX-License-Identifier: MIT
// CodedSum: the blocks of an all-reduce of values in a lossy code. Each hop carries a payload of
// values alone. A rank that encodes keeps the rounding error. A complete sum is encoded once and
// passed on as it is, so all ranks decode the same bits.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "pliant/compress/payload.h"
#include "pliant/exchange/complaint.h"
#include "pliant/exchange/run.h"
#include "pliant/exchange/workspace.h"

namespace pliant::exchange {

class CodedSum final : public Blocks {
 public:
  // Sums `values`, which are finite, in place, cut into `count` blocks. `envelope` says what the
  // payloads are for; length, slice and contents are filled in. `status` is this rank's, and at
  // the end that of all ranks. The rounding error of this rank is added to `banked`, as long as
  // `values`. There is room for sums of up to `most` values: a rank that has refused does not know
  // how many there are, and brings that many.
  CodedSum(std::span<float> values, std::span<float> banked, std::size_t most, int count,
           const compress::Envelope& envelope, compress::SenderStatus& status, Workspace& workspace,
           Complaint& complaint);

  comm::Region outgoing(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  comm::Region room(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  void arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
               const comm::Region& message) override;
  void refuse(const std::string& why) override { complaint_.refuse(why); }

 private:
  [[nodiscard]] std::span<float> block(std::span<float> of, int b) const;
  [[nodiscard]] compress::Envelope envelope_of(int b) const;
  [[nodiscard]] comm::Region encode(int b);
  void take(int b, schedule::OnArrival on_arrival, const comm::Region& payload);

  std::span<float> values_;
  std::span<float> banked_;
  std::vector<std::size_t> begins_;
  std::size_t most_per_block_;
  compress::Envelope envelope_;
  compress::SenderStatus& status_;
  std::vector<float> unsent_;                          // by block: of those whose values are in it
  std::vector<std::optional<comm::Region>> complete_;  // a block's final sum in wire form
  std::vector<float> scratch_;
  std::vector<float> differences_;
  Workspace& workspace_;
  Complaint& complaint_;
};

}  // namespace pliant::exchange
