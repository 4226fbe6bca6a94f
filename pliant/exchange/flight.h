// SPDX-License-Identifier: MIT
// One exchange of one bucket, in three acts, so that the middle one may run on another thread:
//
//   depart   accumulates, selects and encodes this rank's contribution;
//   travel   moves the bytes; touches nothing but the flight itself (shared also takes from the
//   residual, since a follower
//            learns its indices only on the way, and notes the vote: it must land before the bucket
//            is used again);
//   land     writes the average, and gives back to the residual whatever was trimmed, rounded or
//   void on the way.
//
// In every exchange N x result + sum of new residuals = sum of contributions + sum of old
// residuals, and all ranks end with the same bits. docs/algorithms.md tells each scheme's story.
#pragma once

#include <memory>
#include <span>

#include "pliant/comm/communicator.h"
#include "pliant/compress/payload.h"
#include "pliant/exchange/complaint.h"
#include "pliant/exchange/residual_group.h"
#include "pliant/exchange/terms.h"

namespace pliant::exchange {

class Flight {
 public:
  Flight(const comm::Communicator& communicator, ResidualGroup& bucket, const Terms& terms);
  virtual ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  // Throws CommError, or PayloadMismatch, CorruptPayload or RefusedByPeer once the schedule has
  // been played to its end.
  virtual void travel(comm::Communicator& communicator) = 0;

  // The average over ranks, into all of `out`. Once, after travel. If the exchange is void, `out`
  // is NaN (gradients) or 0 (updates), and the residual has back exactly what was taken out of it.
  Report land(std::span<float> out);

  // What is known of it: after travel, all but what landing adds.
  [[nodiscard]] const Report& report() const { return report_; }

  // What left accumulated at departure: to += own part. Updates add it to the parameters until the
  // average lands.
  virtual void add_own_part(std::span<float> to) const = 0;

  // Instead of landing, after travel has thrown: the residual gets back what was taken out of it.
  virtual void give_back() = 0;

 protected:
  virtual void write_average(std::span<float> out) = 0;
  virtual void settle() = 0;  // gives to the residual what came back from the way

  [[nodiscard]] compress::Envelope envelope() const;  // of what this rank sends of the whole bucket
  [[nodiscard]] RunOptions run_options() const;
  void note_tally(const kernels::Tally& tally);
  void note_wire();  // of report_.traffic: what was coding on the way, and what was waiting
  // Opens a payload, takes in its marks and complains of a refusal.
  compress::Opened open(const comm::Region& payload, const compress::Envelope& expected,
                        std::size_t most);
  // out[index] += value / N for each entry, keeping count of what is not zero.
  void add_scaled(std::span<float> out, std::span<const std::uint32_t> indices,
                  std::span<const float> values, std::size_t begin = 0);

  ResidualGroup& bucket_;
  const Terms terms_;
  const int rank_;
  const int ranks_;
  const Seconds departed_;
  compress::Marks marks_;  // this rank's, then everybody's
  Complaint complaint_;
  Report report_;
  std::unique_ptr<Workspace> workspace_;
  std::size_t updated_ = 0;    // entries of the result that are not zero
  double applied_energy_ = 0;  // of the result
};

// Starts the exchange that the plan asks for. `in_place`: memory that a dense exchange of gradients
// may work in, and that the result is landed in (it may be the gradient itself).
[[nodiscard]] std::unique_ptr<Flight> depart(const comm::Communicator& communicator,
                                             ResidualGroup& bucket, const Terms& terms,
                                             const compress::Contribution& contribution,
                                             const comm::Floats& in_place = {});

// All three acts at once: out = the average. If it throws, the residual has back what was taken out
// of it.
Report exchange(comm::Communicator& communicator, ResidualGroup& bucket, const Terms& terms,
                const compress::Contribution& contribution, std::span<float> out);

}  // namespace pliant::exchange
