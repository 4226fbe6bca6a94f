// SPDX-License-Identifier: MIT
#include "pliant/model/price.h"

#include <algorithm>
#include <optional>

#include "pliant/common/errors.h"
#include "pliant/model/sharing.h"

namespace pliant::model {
namespace {

// Messages that follow each other to the rounding of their times do not meet.
constexpr double kRounding = 1e-12;

struct Rank {
  double clock = 0;                            // when its current round began
  double out_free = 0;                         // when its port can send again
  double in_free = 0;                          // when its port can receive again
  double posted = 0;                           // when its receives of this collective were posted
  double sent = 0;                             // when its sends of this round have arrived
  std::vector<std::pair<int, double>> landed;  // this round: from whom, and when
};

class Playback {
 public:
  Playback(std::span<const schedule::Schedule> ranks, std::span<const std::size_t> begins,
           std::span<const double> block_bytes, std::span<const plan::Link> links,
           double combine_seconds_per_byte)
      : schedules_(ranks),
        begins_(begins),
        block_bytes_(block_bytes),
        links_(links),
        combine_(combine_seconds_per_byte),
        ranks_(ranks.size()) {}

  // Nothing if two messages met at a port: this playback lets one wait for the other, networks make
  // them share.
  std::optional<Seconds> play() {
    for (std::size_t r = 0; r < schedules_.front().size() && !met_; ++r) {
      send(r);
      receive(r);
    }
    if (met_) return std::nullopt;
    return Seconds{std::ranges::max(ranks_, {}, &Rank::clock).clock};
  }

 private:
  [[nodiscard]] double size_of(const schedule::Move& move) const {
    double bytes = 0;
    for (const int b : move.blocks) bytes += block_bytes_[static_cast<std::size_t>(b)];
    return bytes;
  }

  void send(std::size_t r) {
    if (std::ranges::find(begins_, r) != begins_.end()) {
      for (Rank& rank : ranks_) rank.posted = rank.clock;
    }
    for (std::size_t s = 0; s < ranks_.size(); ++s) {
      for (const schedule::Move& move : schedules_[s][r].sends) pass(static_cast<int>(s), move);
    }
  }

  void pass(int from, const schedule::Move& move) {
    Rank& sender = ranks_[static_cast<std::size_t>(from)];
    Rank& receiver = ranks_[static_cast<std::size_t>(move.peer)];
    const plan::Link& out = links_[static_cast<std::size_t>(from)];
    const plan::Link& in = links_[static_cast<std::size_t>(move.peer)];
    const double latency = (out.latency.value + in.latency.value) / 2;
    const double transfer = size_of(move) * std::max(out.seconds_per_byte, in.seconds_per_byte);
    const double start = std::max(sender.clock, receiver.posted);
    const double landing = start + latency + transfer;
    const double rounding = kRounding * landing;
    if (start < sender.out_free - rounding || start + latency < receiver.in_free - rounding)
      met_ = true;
    sender.out_free = landing - latency;
    receiver.in_free = landing;
    sender.sent = std::max(sender.sent, landing);
    receiver.landed.emplace_back(from, landing);
  }

  void receive(std::size_t r) {
    for (std::size_t p = 0; p < ranks_.size(); ++p) {
      Rank& rank = ranks_[p];
      const schedule::Round& round = schedules_[p][r];
      rank.clock = std::max(rank.clock, rank.sent);
      for (const schedule::Move& move : round.receives) {
        const auto arrival =
            std::ranges::find(rank.landed, move.peer, &std::pair<int, double>::first);
        require(arrival != rank.landed.end(),
                "price: rank {} waits in round {} for rank {}, which sends nothing", p, r,
                move.peer);
        rank.clock = std::max(rank.clock, arrival->second);
        if (round.on_arrival == schedule::OnArrival::kCombine)
          rank.clock += combine_ * size_of(move);
      }
      rank.landed.clear();
      rank.sent = 0;
    }
  }

  std::span<const schedule::Schedule> schedules_;
  std::span<const std::size_t> begins_;
  std::span<const double> block_bytes_;
  std::span<const plan::Link> links_;
  double combine_;
  std::vector<Rank> ranks_;
  bool met_ = false;
};

}  // namespace

Seconds price(std::span<const schedule::Schedule> ranks, std::span<const double> block_bytes,
              std::span<const plan::Link> links, double combine_seconds_per_byte) {
  return price_sequence({ranks, {}}, block_bytes, links, combine_seconds_per_byte);
}

Seconds price_sequence(const Sequence& sequence, std::span<const double> block_bytes,
                       std::span<const plan::Link> links, double combine_seconds_per_byte) {
  const auto [ranks, begins] = sequence;
  require(!ranks.empty(), "price: no ranks");
  for (const schedule::Schedule& schedule : ranks) {
    require(schedule.size() == ranks.front().size(), "price: ranks of {} and {} rounds",
            schedule.size(), ranks.front().size());
    for (const schedule::Round& round : schedule) {
      for (const schedule::Move& move : round.sends) {
        for (const int b : move.blocks) {
          require(b >= 0 && static_cast<std::size_t>(b) < block_bytes.size(),
                  "price: block {}, {} sizes", b, block_bytes.size());
        }
      }
    }
  }
  require(ranks.size() == links.size(), "price: {} schedules, {} links", ranks.size(),
          links.size());
  const auto alone = Playback(ranks, begins, block_bytes, links, combine_seconds_per_byte).play();
  return alone ? *alone : price_sharing(sequence, block_bytes, links, combine_seconds_per_byte);
}

}  // namespace pliant::model
