// SPDX-License-Identifier: MIT
// Scheme srs, sparse reduce-scatter: rank j gets the largest entries of slice j from every rank,
// adds them, keeps the largest sums and sends those to everyone.
#include <algorithm>

#include "pliant/compress/residual.h"
#include "pliant/exchange/packets.h"
#include "pliant/exchange/schemes.h"
#include "pliant/exchange/sparse_sum.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::exchange {
namespace {

class SrsFlight final : public Flight {
 public:
  SrsFlight(const comm::Communicator& communicator, ResidualGroup& group, const Terms& terms,
            const compress::Contribution& contribution)
      : Flight(communicator, group, terms), own_(group.select_slices(terms, ranks_, contribution)) {
    note_tally(own_.tally);
    report_.select = communicator.now() - departed_;
  }

  // Rounding and trims happen on the way, so this rank's part departs as selected and what it loses
  // lands with the rest.
  void travel(comm::Communicator& communicator) override {
    std::vector<Entries> slices;
    for (const auto& selection : own_.selections) {
      slices.push_back({{selection.indices().begin(), selection.indices().end()},
                        {selection.values().begin(), selection.values().end()}});
    }
    SparseSum sum(std::move(slices), own_.begins, own_.quotas, envelope(), status_, lost_,
                  *workspace_, complaint_);
    const auto& scatter = schedule::find_builder(schedule::Collective::kReduceScatter,
                                                 to_string(terms_.plan.scatter));
    report_.traffic = run(communicator, scatter.build(rank_, {ranks_}), sum, run_options());

    Packets packets(sum.bounds(), *workspace_, complaint_);
    packets.put(rank_, sum.encode(rank_));
    const auto& gather =
        schedule::find_builder(schedule::Collective::kAllGather, to_string(terms_.plan.gather));
    report_.traffic += run(communicator, gather.build(rank_, {ranks_}), packets, run_options());
    note_wire();
    complaint_.raise();

    const Seconds arrived = communicator.now();
    for (int b = 0; b < ranks_; ++b) {
      compress::Envelope expected = sum.envelope_of(b);
      expected.sender = static_cast<std::uint32_t>(b);
      const compress::Opened opened = open(packets.payloads()[static_cast<std::size_t>(b)],
                                           expected, own_.quotas[static_cast<std::size_t>(b)]);
      status_.unsent = opened.status.unsent;  // every owner has added all ranks'
      sums_.push_back(decode(opened));
    }
    report_.decode += communicator.now() - arrived;
  }

  void add_own_part(std::size_t begin, std::span<float> to) const override {
    for (std::size_t b = 0; b < own_.selections.size(); ++b) {
      const auto& selection = own_.selections[b];
      for_entries_within(selection.indices(), own_.begins[b], begin, to.size(),
                         [&](std::size_t j, std::size_t at) { to[at] += selection.values()[j]; });
    }
  }

  void add_average(std::size_t begin, std::span<float> to) const override {
    if (status_.non_finite) return;
    const float factor = scale();
    for (std::size_t b = 0; b < sums_.size(); ++b) {
      for_entries_within(
          sums_[b].indices, own_.begins[b], begin, to.size(),
          [&](std::size_t j, std::size_t at) { to[at] += sums_[b].values[j] * factor; });
    }
  }

  bool touched(std::size_t begin, std::size_t count,
               std::vector<std::uint32_t>& offsets) const override {
    offsets.clear();
    const auto add = [&](std::size_t, std::size_t at) {
      offsets.push_back(static_cast<std::uint32_t>(at));
    };
    for (std::size_t b = 0; b < own_.selections.size(); ++b)
      for_entries_within(own_.selections[b].indices(), own_.begins[b], begin, count, add);
    const auto own = static_cast<std::ptrdiff_t>(offsets.size());
    for (std::size_t b = 0; b < sums_.size(); ++b)
      for_entries_within(sums_[b].indices, own_.begins[b], begin, count, add);
    std::inplace_merge(offsets.begin(), offsets.begin() + own, offsets.end());
    offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
    return true;
  }

  void give_back() override {
    for (std::size_t b = 0; b < own_.selections.size(); ++b) {
      compress::put_back(
          group_.residual().subspan(own_.begins[b], own_.begins[b + 1] - own_.begins[b]),
          own_.selections[b]);
    }
  }

 protected:
  void write_average(std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
    for (std::size_t b = 0; b < sums_.size(); ++b)
      add_scaled(out, sums_[b].indices, sums_[b].values, own_.begins[b]);
  }
  void count_average() override {
    for (const Entries& sum : sums_) count_scaled(sum.values);
  }
  void return_losses() override {
    compress::put_back(group_.residual(), lost_.indices, lost_.values);
  }
  // On the way there is a second copy of the own part, which is summed.
  [[nodiscard]] std::size_t held() const override {
    std::size_t own = 0;
    for (const auto& selection : own_.selections) own += selection.bytes();
    return 2 * own + lost_.bytes() + bytes_of(sums_);
  }

 private:
  ResidualGroup::Slices own_;
  Entries lost_;               // trimmed or rounded away by this rank
  std::vector<Entries> sums_;  // by slice
};

}  // namespace

std::unique_ptr<Flight> depart_srs(const comm::Communicator& communicator, ResidualGroup& group,
                                   const Terms& terms, const compress::Contribution& contribution) {
  return std::make_unique<SrsFlight>(communicator, group, terms, contribution);
}

}  // namespace pliant::exchange
