// SPDX-License-Identifier: MIT
// Flight: one exchange of one group of buckets. It has three parts, so that the middle one may run
// on another thread:
//
//   depart   accumulates, selects and encodes this rank's contribution;
//   travel   moves the bytes and touches nothing but the flight itself. (Except `shared`: a
//   follower
//            learns its indices on the way and takes its values from the residual then. Such a
//            flight must land before the group is used again.)
//   land     writes the average, and returns to the residual what was trimmed, rounded or void on
//            the way.
//
// In every exchange N x result + sum of new residuals = sum of contributions + sum of old
// residuals, and all ranks end with the same bits. docs/algorithms.md describes each scheme.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/compress/payload.h"
#include "pliant/exchange/complaint.h"
#include "pliant/exchange/residual_group.h"
#include "pliant/exchange/terms.h"

namespace pliant::exchange {

class Flight {
 public:
  Flight(const comm::Communicator& communicator, ResidualGroup& group, const Terms& terms);
  virtual ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  // Throws CommError, or PayloadMismatch, CorruptPayload or RefusedByPeer once the schedule has
  // been played to its end.
  virtual void travel(comm::Communicator& communicator) = 0;

  // The average over ranks, into all of `out`. Once, after travel. If the exchange is void, `out`
  // is NaN (gradients) or 0 (updates), and the residual has back exactly what was taken out of it.
  Report land(std::span<float> out);

  // After departure: whether this rank's contribution was finite. After travel: that of all ranks.
  [[nodiscard]] bool finite() const { return !status_.non_finite; }
  // After travel: everything but what landing adds.
  [[nodiscard]] const Report& report() const { return report_; }

  // Landing piece by piece, for updates, instead of land(): returns to the residual what land()
  // would, and afterwards add_average() gives the average of any piece, in any order.
  Report conclude();
  // to += the average of the entries from `begin` on. Nothing is added if the exchange is void.
  virtual void add_average(std::size_t begin, std::span<float> to) const = 0;

  // to += own part of the entries from `begin` on, which is what left accumulated at departure.
  // Updates add it to the parameters until the average lands.
  virtual void add_own_part(std::size_t begin, std::span<float> to) const = 0;
  void add_own_part(std::span<float> to) const { add_own_part(0, to); }

  // Ascending offsets from `begin`, below `count`: where the own part is, and after travel the
  // average. False: anywhere, and `offsets` is left as it is.
  virtual bool touched(std::size_t begin, std::size_t count,
                       std::vector<std::uint32_t>& offsets) const = 0;

  // Instead of landing, after travel has thrown: returns to the residual what was taken out of it.
  virtual void give_back() = 0;

 protected:
  virtual void write_average(std::span<float> out) = 0;
  // Counts what add_scaled counts, of an average that is never written.
  virtual void count_average() = 0;
  void count_scaled(std::span<const float> values);  // one of each entry
  virtual void return_losses() = 0;  // to the residual: what was trimmed or rounded on the way
  // Bytes of own part and results, besides the workspace.
  [[nodiscard]] virtual std::size_t held() const = 0;

  Report end();                                       // of landing
  [[nodiscard]] compress::Envelope envelope() const;  // of what this rank sends of the whole group
  [[nodiscard]] RunOptions run_options() const;
  void note_tally(const kernels::Tally& tally);
  void note_wire();  // splits the time of report_.traffic into coding and waiting
  // Opens a payload and merges its status. Throws RefusedByPeer if a rank refused a payload.
  compress::Opened open(const comm::Region& payload, const compress::Envelope& expected,
                        std::size_t most);
  // out[index] += value / N for each entry, keeping count of what is not zero.
  void add_scaled(std::span<float> out, std::span<const std::uint32_t> indices,
                  std::span<const float> values, std::size_t begin = 0);

  ResidualGroup& group_;
  const Terms terms_;
  const int rank_;
  const int ranks_;
  const Seconds departed_;
  compress::SenderStatus status_;  // this rank's, then merged over all ranks
  Complaint complaint_;
  Report report_;
  std::unique_ptr<Workspace> workspace_;
  [[nodiscard]] float scale() const { return 1.0F / static_cast<float>(ranks_); }
  std::size_t updated_ = 0;    // entries of the result that are not zero
  double applied_energy_ = 0;  // of the result
};

// Starts the exchange that the plan asks for. `in_place`: memory that a dense exchange of gradients
// may work in, and that the result is landed in (it may be the gradient itself).
[[nodiscard]] std::unique_ptr<Flight> depart(const comm::Communicator& communicator,
                                             ResidualGroup& group, const Terms& terms,
                                             const compress::Contribution& contribution,
                                             const comm::Floats& in_place = {});

// All three acts at once: out = the average. If it throws, the residual is as before, plus the
// contribution.
Report exchange(comm::Communicator& communicator, ResidualGroup& group, const Terms& terms,
                const compress::Contribution& contribution, std::span<float> out);

}  // namespace pliant::exchange
