// SPDX-License-Identifier: MIT
#include "pliant/model/sharing.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "pliant/common/errors.h"

namespace pliant::model {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Events closer than this, relative to the time of the event, are one: what should be simultaneous
// differs by rounding only.
constexpr double kSame = 1e-12;

// A message: under way from `begins` (its latency has passed) until `remaining` bytes have gone
// through both ports.
struct Flow {
  std::size_t from, to;
  std::size_t round;
  double begins;
  double remaining;
  double rate = 0;
};

struct Arrival {
  std::size_t from, round;
  double time;
};

struct Rank {
  std::size_t round = 0;  // the one it is in
  double entered = 0;
  int sending = 0;
  std::size_t posted = 0;  // the round before which its receives are posted
  double sent = 0;         // when the last of its sends arrived
  std::vector<Arrival> arrivals = {};
  double ready = kNever;  // when the next round starts, once that is known
};

class Events {
 public:
  Events(const Sequence& sequence, std::span<const double> block_bytes,
         std::span<const plan::Link> links, double combine)
      : schedules_(sequence.ranks),
        begins_(sequence.begins),
        block_bytes_(block_bytes),
        links_(links),
        combine_(combine),
        ranks_(sequence.ranks.size()) {}

  double play() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) post(r, 0);
    for (std::size_t r = 0; r < ranks_.size(); ++r) begin_round(r, 0);
    for (double now = 0; now < kNever;) {
      share();
      const double next = next_event(now);
      if (next == kNever) break;
      advance(now, next);
      now = next;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      require(ranks_[r].round == schedules_[r].size(),
              "price: rank {} waits in round {} for a message that no rank sends", r,
              ranks_[r].round);
    }
    return std::ranges::max(ranks_, {}, &Rank::entered).entered;
  }

 private:
  [[nodiscard]] double size_of(const schedule::Move& move) const {
    double bytes = 0;
    for (const int b : move.blocks) bytes += block_bytes_[static_cast<std::size_t>(b)];
    return bytes;
  }

  void begin_round(std::size_t r, double now) {
    Rank& rank = ranks_[r];
    rank.entered = rank.sent = now;
    rank.ready = kNever;
    if (rank.round == schedules_[r].size()) return;
    if (rank.round >= rank.posted) post(r, now);
    const auto& sends = schedules_[r][rank.round].sends;
    rank.sending = static_cast<int>(sends.size());
    for (const schedule::Move& move : sends) {
      const auto to = static_cast<std::size_t>(move.peer);
      const double start = rank.round < ranks_[to].posted ? now + latency(r, to) : kNever;
      flows_.push_back({r, to, rank.round, start, size_of(move)});
    }
    settle(r);
  }

  [[nodiscard]] double latency(std::size_t from, std::size_t to) const {
    return (links_[from].latency.value + links_[to].latency.value) / 2;
  }

  // The rank enters a collective; what has been waiting for that starts now.
  void post(std::size_t r, double now) {
    const auto next = std::ranges::upper_bound(begins_, ranks_[r].round);
    ranks_[r].posted = next == begins_.end() ? schedules_[r].size() : *next;
    for (Flow& flow : flows_) {
      if (flow.to == r && flow.begins == kNever && flow.round < ranks_[r].posted)
        flow.begins = now + latency(flow.from, r);
    }
  }

  // If all that the round waits for is there: when does the next one start?
  void settle(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.round == schedules_[r].size() || rank.sending > 0 || rank.ready != kNever) return;
    const schedule::Round& round = schedules_[r][rank.round];
    double clock = rank.sent;
    for (const schedule::Move& move : round.receives) {
      const auto from = static_cast<std::size_t>(move.peer);
      const auto arrival = std::ranges::find_if(
          rank.arrivals, [&](const Arrival& a) { return a.from == from && a.round == rank.round; });
      if (arrival == rank.arrivals.end()) return;
      clock = std::max(clock, arrival->time);
      if (round.on_arrival == schedule::OnArrival::kCombine) clock += combine_ * size_of(move);
    }
    std::erase_if(rank.arrivals, [&](const Arrival& a) { return a.round == rank.round; });
    rank.ready = clock;
  }

  // Max-min fairness by filling: the port that allows its flows least sets their rate, then the
  // rest share what is left.
  void share() {
    const std::size_t n = ranks_.size();
    std::vector<double> room(2 * n);  // of the ports out, then of the ports in
    for (std::size_t p = 0; p < 2 * n; ++p) {
      const double per_byte = links_[p % n].seconds_per_byte;
      room[p] = per_byte > 0 ? 1 / per_byte : kNever;
    }
    std::vector<int> users(2 * n);
    std::vector<Flow*> open;
    for (Flow& flow : flows_) {
      if (!started(flow)) continue;
      open.push_back(&flow);
      ++users[flow.from];
      ++users[n + flow.to];
    }
    while (!open.empty()) {
      double least = kNever;
      for (std::size_t p = 0; p < 2 * n; ++p) {
        if (users[p] > 0) least = std::min(least, room[p] / users[p]);
      }
      const auto tight = [&](std::size_t p) { return room[p] / users[p] <= least * (1 + kSame); };
      const auto fixed = std::partition(open.begin(), open.end(), [&](const Flow* flow) {
        return !tight(flow->from) && !tight(n + flow->to);
      });
      for (auto it = fixed; it != open.end(); ++it) {
        (*it)->rate = least;
        for (const std::size_t p : {(*it)->from, n + (*it)->to}) {
          if (room[p] != kNever) room[p] = std::max(0.0, room[p] - least);
          --users[p];
        }
      }
      open.erase(fixed, open.end());
    }
  }

  [[nodiscard]] bool started(const Flow& flow) const { return flow.begins <= now_; }

  [[nodiscard]] double end_of(const Flow& flow, double now) const {
    if (!started(flow)) return flow.begins;
    return flow.remaining > 0 && flow.rate != kNever ? now + flow.remaining / flow.rate : now;
  }

  [[nodiscard]] double next_event(double now) const {
    double next = kNever;
    for (const Flow& flow : flows_) next = std::min(next, end_of(flow, now));
    for (const Rank& rank : ranks_) next = std::min(next, rank.ready);
    return next;
  }

  void advance(double now, double next) {
    const double horizon = next + kSame * std::max(next, 1e-6);
    std::vector<Flow> landed;
    std::vector<Flow> left;
    for (Flow& flow : flows_) {
      if (started(flow) && end_of(flow, now) <= horizon) {
        landed.push_back(flow);
        continue;
      }
      if (started(flow)) flow.remaining -= flow.rate * (next - now);
      left.push_back(flow);
    }
    flows_ = std::move(left);
    now_ = horizon;
    for (const Flow& flow : landed) {
      --ranks_[flow.from].sending;
      ranks_[flow.from].sent = std::max(ranks_[flow.from].sent, next);
      ranks_[flow.to].arrivals.push_back({flow.from, flow.round, next});
    }
    for (const Flow& flow : landed) {
      settle(flow.from);
      settle(flow.to);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].ready > horizon) continue;
      ++ranks_[r].round;
      begin_round(r, next);
    }
  }

  std::span<const schedule::Schedule> schedules_;
  std::span<const std::size_t> begins_;
  std::span<const double> block_bytes_;
  std::span<const plan::Link> links_;
  double combine_;
  double now_ = 0;  // flows that begin by then are under way
  std::vector<Rank> ranks_;
  std::vector<Flow> flows_;
};

}  // namespace

Seconds price_sharing(const Sequence& sequence, std::span<const double> block_bytes,
                      std::span<const plan::Link> links, double combine_seconds_per_byte) {
  return {Events(sequence, block_bytes, links, combine_seconds_per_byte).play()};
}

}  // namespace pliant::model
