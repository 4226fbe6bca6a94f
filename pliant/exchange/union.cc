// SPDX-License-Identifier: MIT
// Scheme union: the largest entries of every rank, all-gathered and summed in rank order.
#include <algorithm>

#include "pliant/compress/residual.h"
#include "pliant/exchange/entries.h"
#include "pliant/exchange/packets.h"
#include "pliant/exchange/schemes.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::exchange {
namespace {

class UnionFlight final : public Flight {
 public:
  UnionFlight(const comm::Communicator& communicator, ResidualGroup& group, const Terms& terms,
              const compress::Contribution& contribution)
      : Flight(communicator, group, terms), quota_(group.quota(terms)) {
    note_tally(group.select(terms, contribution, own_).tally);
    const Seconds selected = communicator.now();
    const comm::Region room = workspace_->take(bound());
    payload_ = {compress::encode_giving_back(envelope(), status_, own_.indices(), own_.values(),
                                             group.residual(), room.bytes),
                room.owner};
    report_.select = selected - departed_;
    report_.encode = communicator.now() - selected;
  }

  void travel(comm::Communicator& communicator) override {
    Packets packets(std::vector<std::size_t>(static_cast<std::size_t>(ranks_), bound()),
                    *workspace_, complaint_);
    packets.put(rank_, payload_);
    const auto& builder =
        schedule::find_builder(schedule::Collective::kAllGather, to_string(terms_.plan.gather));
    report_.traffic = run(communicator, builder.build(rank_, {ranks_}), packets, run_options());
    note_wire();
    complaint_.raise();
    const Seconds arrived = communicator.now();
    status_.unsent = 0;
    for (int r = 0; r < ranks_; ++r) {
      compress::Envelope expected = envelope();
      expected.sender = static_cast<std::uint32_t>(r);
      const compress::Opened opened =
          open(packets.payloads()[static_cast<std::size_t>(r)], expected, quota_);
      status_.unsent =
          compress::header_energy(static_cast<double>(status_.unsent) + opened.status.unsent);
      parts_.push_back(decode(opened));
    }
    report_.decode += communicator.now() - arrived;
  }

  void add_own_part(std::span<float> to) const override {
    for (std::size_t i = 0; i < own_.size(); ++i) to[own_.indices()[i]] += own_.values()[i];
  }

  void give_back() override { compress::put_back(group_.residual(), own_); }

 protected:
  void write_average(std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
    for (const Entries& part : parts_) add_scaled(out, part.indices, part.values);
  }
  void return_losses() override {}  // rounding went back at departure
  [[nodiscard]] std::size_t held() const override { return own_.bytes() + bytes_of(parts_); }

 private:
  [[nodiscard]] std::size_t bound() const {
    const compress::Envelope mine = envelope();
    return static_cast<std::size_t>(encoded_bound(mine.length, quota_, mine.codes).value);
  }

  std::size_t quota_;
  compress::Selection own_;  // decoded values
  comm::Region payload_;
  std::vector<Entries> parts_;  // by rank
};

}  // namespace

std::unique_ptr<Flight> depart_union(const comm::Communicator& communicator, ResidualGroup& group,
                                     const Terms& terms,
                                     const compress::Contribution& contribution) {
  return std::make_unique<UnionFlight>(communicator, group, terms, contribution);
}

}  // namespace pliant::exchange
