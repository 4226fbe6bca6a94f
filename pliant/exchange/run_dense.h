// SPDX-License-Identifier: MIT
// Dense collectives: a schedule run over equal parts of a float32 vector.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/exchange/complaint.h"
#include "pliant/exchange/run.h"
#include "pliant/exchange/workspace.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::exchange {

// The floats cut into `count` blocks. Copied blocks arrive in place; added blocks arrive in the
// workspace and are added in the schedule's order. A sum that is not a number is always the same
// NaN, whatever went in.
class DenseBlocks final : public Blocks {
 public:
  DenseBlocks(comm::Floats floats, int count, Workspace& workspace, Complaint& complaint);

  comm::Region outgoing(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  comm::Region room(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  void arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
               const comm::Region& message) override;
  void refuse(const std::string& why) override { complaint_.refuse(why); }

 private:
  [[nodiscard]] std::span<float> block(int b) const;
  // The blocks as one span, if they lie side by side.
  [[nodiscard]] std::optional<std::span<float>> together(const schedule::Move& move) const;
  [[nodiscard]] std::size_t size_of(const schedule::Move& move) const;

  comm::Floats floats_;
  std::vector<std::size_t> begins_;
  Workspace& workspace_;
  Complaint& complaint_;
};

// Runs one collective of the catalogue in place. all-reduce: every rank ends with the sum;
// broadcast: with the root's data; all-gather: block b (see split_points) with rank b's;
// reduce-scatter: rank b holds the sum of block b, the rest is scrap. Same bits on all ranks and
// from run to run. Collective; throws CommError.
Traffic run_dense(comm::Communicator& communicator, const schedule::Builder& builder,
                  const schedule::Shape& shape, const comm::Floats& floats, Workspace& workspace,
                  const RunOptions& options = {});

// The sum over all ranks by the named all-reduce.
Traffic all_reduce(comm::Communicator& communicator, const comm::Floats& floats,
                   std::string_view schedule, Workspace& workspace, const RunOptions& options = {});

}  // namespace pliant::exchange
