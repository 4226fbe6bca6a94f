// SPDX-License-Identifier: MIT
// Scheme union: the largest entries of every rank, all-gathered and summed in rank order.
#include <algorithm>

#include "pliant/compress/payload_reader.h"
#include "pliant/compress/residual.h"
#include "pliant/exchange/entries.h"
#include "pliant/exchange/packets.h"
#include "pliant/exchange/schemes.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::exchange {
namespace {

// sum = sum + factor * added, entry by entry, where an entry that is missing counts as 0. As in a
// dense sum, entries that cancel out stay, as 0.
void add_scaled(Entries& sum, const Entries& added, float factor, Entries& scratch) {
  scratch.indices.resize(sum.size() + added.size());
  scratch.values.resize(sum.size() + added.size());
  std::size_t n = 0;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < sum.size() && j < added.size()) {
    const std::uint32_t left = sum.indices[i];
    const std::uint32_t right = added.indices[j];
    const std::size_t from_sum = left <= right ? 1 : 0;
    const std::size_t from_added = right <= left ? 1 : 0;
    scratch.indices[n] = std::min(left, right);
    scratch.values[n++] = (from_sum != 0 ? sum.values[i] : 0.0F) +
                          (from_added != 0 ? added.values[j] * factor : 0.0F);
    i += from_sum;
    j += from_added;
  }
  for (; i < sum.size(); ++i, ++n) {
    scratch.indices[n] = sum.indices[i];
    scratch.values[n] = sum.values[i];
  }
  for (; j < added.size(); ++j, ++n) {
    scratch.indices[n] = added.indices[j];
    scratch.values[n] = 0.0F + added.values[j] * factor;
  }
  scratch.indices.resize(n);
  scratch.values.resize(n);
  std::swap(sum, scratch);
}

class UnionFlight final : public Flight {
 public:
  UnionFlight(const comm::Communicator& communicator, ResidualGroup& group, const Terms& terms,
              const compress::Contribution& contribution)
      : Flight(communicator, group, terms), quota_(group.quota(terms)) {
    note_tally(group.select(terms, contribution, own_).tally);
    if (updates()) own_.shrink_to_fit();  // it is kept until the exchange lands
    const Seconds selected = communicator.now();
    report_.select = selected - departed_;
    workspace_->reserve(own_bytes() + static_cast<std::size_t>(ranks_ - 1) * bound());
    // Rounding changes the residual, which only this thread may touch. The rest is left to travel.
    value_stream_ = workspace_->take(own_bytes() - bound());
    value_stream_.bytes = compress::encode_values_giving_back(
        terms.plan.values, own_.indices(), own_.values(), group.residual(), value_stream_.bytes);
    report_.encode = report_.encoded_at_departure = communicator.now() - selected;
  }

  void travel(comm::Communicator& communicator) override {
    const Seconds began = communicator.now();
    const comm::Region room = workspace_->take(bound());
    const comm::Region payload = {compress::encode_around(envelope(), status_, own_.indices(),
                                                          value_stream_.bytes, room.bytes),
                                  room.owner};
    report_.encode += communicator.now() - began;
    Packets packets(std::vector<std::size_t>(static_cast<std::size_t>(ranks_), bound()),
                    *workspace_, complaint_);
    packets.put(rank_, payload);
    const auto& builder =
        schedule::find_builder(schedule::Collective::kAllGather, to_string(terms_.plan.gather));
    report_.traffic = run(communicator, builder.build(rank_, {ranks_}), packets, run_options());
    note_wire();
    complaint_.raise();
    const Seconds arrived = communicator.now();
    status_.unsent = 0;
    Entries part;
    Entries scratch;
    const bool streams = updates() && makes_a_dense_sum();
    for (int r = 0; r < ranks_; ++r) {
      compress::Envelope expected = envelope();
      expected.sender = static_cast<std::uint32_t>(r);
      const compress::Opened opened =
          open(packets.payloads()[static_cast<std::size_t>(r)], expected, quota_);
      status_.unsent =
          compress::header_energy(static_cast<double>(status_.unsent) + opened.status.unsent);
      if (!updates()) {
        parts_.push_back(decode(opened));
        continue;
      }
      decode(opened, part);  // throws if anything is wrong with it
      if (streams) {
        payloads_.push_back({packets.payloads()[static_cast<std::size_t>(r)], opened});
      } else {
        exchange::add_scaled(average_, part, scale(), scratch);
      }
    }
    packed_ = packets.packed();
    travelled_ = true;
    if (streams) count_streamed();
    report_.decode += communicator.now() - arrived;
  }

  void add_own_part(std::size_t begin, std::span<float> to) const override {
    for_entries_within(own_.indices(), 0, begin, to.size(),
                       [&](std::size_t j, std::size_t at) { to[at] += own_.values()[j]; });
  }

  void add_average(std::size_t begin, std::span<float> to) const override {
    if (status_.non_finite) return;
    if (!payloads_.empty()) return add_streamed(begin, to);
    for_entries_within(average_.indices, 0, begin, to.size(),
                       [&](std::size_t j, std::size_t at) { to[at] += average_.values[j]; });
  }

  bool touched(std::size_t begin, std::size_t count,
               std::vector<std::uint32_t>& offsets) const override {
    if (!payloads_.empty()) return false;
    offsets.clear();
    const std::span<const std::uint32_t> all =
        travelled_ ? std::span<const std::uint32_t>(average_.indices) : own_.indices();
    for_entries_within(all, 0, begin, count, [&](std::size_t, std::size_t at) {
      offsets.push_back(static_cast<std::uint32_t>(at));
    });
    return true;
  }

  void give_back() override { compress::put_back(group_.residual(), own_); }

 protected:
  void write_average(std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
    if (updates()) {
      count_average();
      add_average(0, out);
    } else {
      for (const Entries& part : parts_) Flight::add_scaled(out, part.indices, part.values);
    }
  }
  void count_average() override {  // a streamed one was counted by travel
    for (const float value : average_.values) {
      updated_ += static_cast<std::size_t>(value != 0);
      applied_energy_ += static_cast<double>(value) * value;
    }
  }
  void return_losses() override {}  // rounding went back at departure
  [[nodiscard]] std::size_t held() const override {
    // Readers are left out: 4 KiB a rank, whatever the model.
    return own_.bytes() + average_.bytes() + bytes_of(parts_) + packed_;
  }

 private:
  // A sum that has more than so many of the entries is not kept as a list: at 8 bytes an entry,
  // and twice that while it grows, the list would be the larger part of what an exchange holds. The
  // payloads stay as they came, and are added chunk by chunk when the exchange lands. A landing
  // touches most cache lines by then anyway.
  static constexpr double kLongestList = 0.03;
  [[nodiscard]] bool makes_a_dense_sum() const {
    return static_cast<double>(ranks_) * static_cast<double>(quota_) >
           kLongestList * static_cast<double>(group_.size());
  }

  // to += the average from `begin` on, in rank order. Front to back: 0 starts anew.
  void add_streamed(std::size_t begin, std::span<float> to) const {
    if (begin == 0) {
      readers_.clear();
      for (const auto& [region, opened] : payloads_) readers_.emplace_back(opened);
    }
    const float factor = scale();
    for (auto& reader : readers_) {
      reader.read_below(begin + to.size(), [&](std::uint32_t index, float value) {
        to[index - begin] += value * factor;
      });
    }
  }

  void count_streamed() {
    std::vector<float> chunk;
    for (std::size_t begin = 0; begin < group_.size(); begin += compress::kLongestPiece) {
      chunk.assign(std::min(compress::kLongestPiece, group_.size() - begin), 0.0F);
      add_streamed(begin, chunk);
      for (const float value : chunk) {
        updated_ += static_cast<std::size_t>(value != 0);
        applied_energy_ += static_cast<double>(value) * value;
      }
    }
  }

  [[nodiscard]] bool updates() const { return terms_.plan.kind == plan::Kind::kUpdates; }
  [[nodiscard]] std::size_t bound() const {
    const compress::Envelope mine = envelope();
    return static_cast<std::size_t>(encoded_bound(mine.length, quota_, mine.codes).value);
  }
  [[nodiscard]] std::size_t own_bytes() const {  // of the payload, and of its value stream apart
    return bound() + static_cast<std::size_t>(plan::value_stream_bytes(terms_.plan.values, quota_));
  }

  std::size_t quota_;
  compress::Selection own_;  // decoded values
  comm::Region value_stream_;
  bool travelled_ = false;
  // Updates. The sum in rank order, if it is a short list:
  Entries average_;
  // otherwise what it is made of, by rank:
  struct Arrived {
    comm::Region region;
    compress::Opened opened;
  };
  std::vector<Arrived> payloads_;
  mutable std::vector<compress::PayloadReader> readers_;
  std::size_t packed_ = 0;      // bytes of the longest message that was put together
  std::vector<Entries> parts_;  // gradients: by rank, since the sum is made in the caller's memory
};

}  // namespace

std::unique_ptr<Flight> depart_union(const comm::Communicator& communicator, ResidualGroup& group,
                                     const Terms& terms,
                                     const compress::Contribution& contribution) {
  return std::make_unique<UnionFlight>(communicator, group, terms, contribution);
}

}  // namespace pliant::exchange
