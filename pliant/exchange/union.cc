// SPDX-License-Identifier: MIT
// union: every rank's own largest entries, all-gathered and summed in rank order.
#include <algorithm>

#include "pliant/compress/residual.h"
#include "pliant/exchange/packets.h"
#include "pliant/exchange/schemes.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::exchange {
namespace {

class UnionFlight final : public Flight {
 public:
  UnionFlight(const comm::Communicator& communicator, ResidualGroup& bucket, const Terms& terms,
              const compress::Contribution& contribution)
      : Flight(communicator, bucket, terms), quota_(bucket.quota(terms)) {
    note_tally(bucket.select(terms, contribution, own_).tally);
    const Seconds selected = communicator.now();
    const comm::Region room = workspace_->take(bound());
    try {
      payload_ = {compress::encode_giving_back(envelope(), marks_, own_.indices(), own_.values(),
                                               bucket.residual(), room.bytes),
                  room.owner};
    } catch (...) {  // a selection beyond the quota: the selector's owner and these terms disagree
      compress::put_back(bucket.residual(), own_);
      throw;
    }
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
    marks_.unsent = 0;
    for (int r = 0; r < ranks_; ++r) {
      compress::Envelope expected = envelope();
      expected.sender = static_cast<std::uint32_t>(r);
      const compress::Opened opened =
          open(packets.payloads()[static_cast<std::size_t>(r)], expected, quota_);
      marks_.unsent =
          compress::energy_mark(static_cast<double>(marks_.unsent) + opened.marks.unsent);
      Part part{.indices = std::vector<std::uint32_t>(opened.count),
                .values = std::vector<float>(opened.count)};
      (void)compress::decode_indices(opened, part.indices);
      (void)compress::decode_values(opened, part.values);
      parts_.push_back(std::move(part));
    }
    report_.decode += communicator.now() - arrived;
  }

  void add_own_part(std::span<float> to) const override {
    for (std::size_t i = 0; i < own_.size(); ++i) to[own_.indices()[i]] += own_.values()[i];
  }

  void give_back() override { compress::put_back(bucket_.residual(), own_); }

 protected:
  void write_average(std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
    for (const Part& part : parts_) add_scaled(out, part.indices, part.values);
  }
  void settle() override {}  // rounding went back at departure

 private:
  struct Part {
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
  };
  [[nodiscard]] std::size_t bound() const {
    const compress::Envelope mine = envelope();
    return static_cast<std::size_t>(encoded_bound(mine.length, quota_, mine.codes).value);
  }

  std::size_t quota_;
  compress::Selection own_;  // decoded values
  comm::Region payload_;
  std::vector<Part> parts_;  // by rank
};

}  // namespace

std::unique_ptr<Flight> depart_union(const comm::Communicator& communicator, ResidualGroup& bucket,
                                     const Terms& terms,
                                     const compress::Contribution& contribution) {
  return std::make_unique<UnionFlight>(communicator, bucket, terms, contribution);
}

}  // namespace pliant::exchange
