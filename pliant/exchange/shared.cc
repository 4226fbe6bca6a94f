// SPDX-License-Identifier: MIT
// Scheme shared: the leader's indices are broadcast, every rank takes its own values there, and the
// values are all-reduced.
//
// star: the leader is round mod N. var: the rank whose largest entries hold the most energy. The
// vote costs no message: each rank's estimate travels in the headers of the values, where adding
// two payloads keeps the larger. So the leader of this exchange is the winner of the last vote, and
// round mod N before the first.
#include <algorithm>

#include "pliant/compress/residual.h"
#include "pliant/exchange/coded_sum.h"
#include "pliant/exchange/entries.h"
#include "pliant/exchange/packets.h"
#include "pliant/exchange/schemes.h"
#include "pliant/plan/segments.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::exchange {
namespace {

class SharedFlight final : public Flight {
 public:
  SharedFlight(const comm::Communicator& communicator, ResidualGroup& group, const Terms& terms,
               const compress::Contribution& contribution)
      : Flight(communicator, group, terms), quota_(group.quota(terms)), leader_(pick_leader()) {
    const auto outcome =
        rank_ == leader_ ? group.select(terms, contribution, led_) : group.accumulate(contribution);
    note_tally(outcome.tally);
    status_.vote = compress::header_energy(group.top_energy(terms, outcome));
    status_.voted = static_cast<std::uint16_t>(rank_);
    energy_ = outcome.tally.energy;
    report_.leader = leader_;
    report_.select = communicator.now() - departed_;
  }

  void travel(comm::Communicator& communicator) override {
    report_.traffic = broadcast_indices(communicator);
    take_values();
    report_.traffic += sum_values(communicator);
    note_wire();
    complaint_.raise();
    group_.voted = status_.voted;
  }

  void add_own_part(std::size_t begin, std::span<float> to) const override {
    for_entries_within(indices_, 0, begin, to.size(),
                       [&](std::size_t j, std::size_t at) { to[at] += taken_[j]; });
  }

  void add_average(std::size_t begin, std::span<float> to) const override {
    if (status_.non_finite) return;
    const float factor = scale();
    for_entries_within(indices_, 0, begin, to.size(),
                       [&](std::size_t j, std::size_t at) { to[at] += sums_[j] * factor; });
  }

  bool touched(std::size_t begin, std::size_t count,
               std::vector<std::uint32_t>& offsets) const override {
    offsets.clear();
    for_entries_within(indices_, 0, begin, count, [&](std::size_t, std::size_t at) {
      offsets.push_back(static_cast<std::uint32_t>(at));
    });
    return true;
  }

  void give_back() override {
    if (indices_.empty()) {
      compress::put_back(group_.residual(),
                         led_);  // not yet taken: only the leader's selection is out
    } else {
      compress::put_back(group_.residual(), indices_, taken_);
    }
  }

 protected:
  void write_average(std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
    add_scaled(out, indices_, sums_);
  }
  void count_average() override { count_scaled(sums_); }
  void return_losses() override { compress::put_back(group_.residual(), indices_, banked_); }
  [[nodiscard]] std::size_t held() const override {
    const std::size_t floats = taken_.capacity() + sums_.capacity() + banked_.capacity();
    return led_.bytes() + indices_.capacity() * sizeof(std::uint32_t) + floats * sizeof(float);
  }

 private:
  [[nodiscard]] int pick_leader() const {
    const int turn = static_cast<int>(terms_.round % static_cast<std::uint64_t>(ranks_));
    const bool elected =
        terms_.plan.leader == plan::Leader::kVar && group_.voted && *group_.voted < ranks_;
    return elected ? *group_.voted : turn;
  }

  Traffic broadcast_indices(comm::Communicator& communicator) {
    compress::Envelope from_leader = envelope();
    from_leader.sender = static_cast<std::uint32_t>(leader_);
    from_leader.contents = plan::Contents::kIndices;
    const auto bound = static_cast<std::size_t>(
        encoded_bound(from_leader.length, quota_, from_leader.codes, from_leader.contents).value);
    comm::Region payload;
    if (rank_ == leader_) {
      const comm::Region room = workspace_->take(bound);
      payload = {compress::encode(from_leader, status_, led_.indices(), {}, {}, room.bytes),
                 room.owner};
    }
    const auto& builder =
        schedule::find_builder(schedule::Collective::kBroadcast, to_string(terms_.plan.bcast));
    const Bytes expected =
        encoded_estimate(from_leader.length, quota_, from_leader.codes, from_leader.contents);
    const int segments =
        terms_.plan.segments > 0 ? terms_.plan.segments : plan::default_segments(expected);
    const schedule::Shape shape{.size = ranks_, .root = leader_, .segments = segments};
    Parts parts(payload, bound, builder.blocks(shape), *workspace_, complaint_);
    const Traffic traffic = run(communicator, builder.build(rank_, shape), parts, run_options());
    if (!complaint_.any()) {
      complaint_.attempt([&] {
        const compress::Opened opened = compress::open(parts.payload().bytes, from_leader, quota_);
        status_.non_finite = status_.non_finite || opened.status.non_finite;
        indices_.resize(opened.count);
        (void)compress::decode_indices(opened, indices_);
      });
    }
    return traffic;
  }

  // A rank that refused the indices goes on with as many zeros as there may be values, so that the
  // others can finish.
  void take_values() {
    if (complaint_.any()) indices_.clear();
    const std::size_t count = complaint_.any() ? quota_ : indices_.size();
    sums_.assign(count, 0.0F);
    banked_.assign(count, 0.0F);
    if (complaint_.any()) return;
    if (rank_ == leader_) {
      std::ranges::copy(led_.values(), sums_.begin());
    } else {
      compress::take_out(group_.residual(), indices_, sums_);
    }
    taken_ = sums_;
    double kept_energy = 0;
    for (const float value : taken_) kept_energy += static_cast<double>(value) * value;
    report_.kept = taken_.size();
    report_.gain = energy_ > 0 ? kept_energy / energy_ : 1;
    status_.unsent = compress::header_energy(energy_ - kept_energy);
  }

  Traffic sum_values(comm::Communicator& communicator) {
    const auto& builder =
        schedule::find_builder(schedule::Collective::kAllReduce, to_string(terms_.plan.reduce));
    const schedule::Shape shape{.size = ranks_};
    CodedSum sum(sums_, banked_, quota_, builder.blocks(shape), envelope(), status_, *workspace_,
                 complaint_);
    return run(communicator, builder.build(rank_, shape), sum, run_options());
  }

  std::size_t quota_;
  int leader_;
  compress::Selection led_;             // the leader's own
  std::vector<std::uint32_t> indices_;  // the leader's
  std::vector<float> taken_;            // this rank's values there
  std::vector<float> sums_;
  std::vector<float> banked_;  // what this rank's rounding took from them
  double energy_ = 0;          // of accumulated
};

}  // namespace

std::unique_ptr<Flight> depart_shared(const comm::Communicator& communicator, ResidualGroup& group,
                                      const Terms& terms,
                                      const compress::Contribution& contribution) {
  return std::make_unique<SharedFlight>(communicator, group, terms, contribution);
}

}  // namespace pliant::exchange
