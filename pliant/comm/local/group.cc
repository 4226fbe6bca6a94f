// SPDX-License-Identifier: MIT
// A message is done when its bytes have been copied from the sender's memory into the receiver's:
// one copy, made by whichever of the two comes second. Since receives are posted early, that is
// almost always the sender's thread.
#include "pliant/comm/local/group.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pliant/comm/lifeline.h"
#include "pliant/common/errors.h"

namespace pliant::comm::local {
namespace {

// One message, seen from one side. While it waits in a mailbox its region has an owner: the caller
// may be gone.
struct Pending {
  int peer;
  bool receiving;
  Region region;
  std::span<std::byte> staged_for;  // a receive without an owner: where its caller wants the bytes
  bool done = false;                // this and the rest: guarded by the mailboxes' mutex
  std::size_t size = 0;             // of the message
};
using PendingPtr = std::shared_ptr<Pending>;

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty() && from.size() <= to.size()) std::memcpy(to.data(), from.data(), from.size());
}

Seconds steady_now() {
  return {
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

}  // namespace

class Mailboxes {
 public:
  explicit Mailboxes(int size) : ranks_(static_cast<std::size_t>(size)) {}

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }

  void join(int rank) {
    const std::lock_guard lock(mutex_);
    require(at(rank).presence == Presence::kAwaited, "comm/local: rank {} has joined already",
            rank);
    at(rank).presence = Presence::kHere;
    at(rank).last_sign = steady_now();
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    at(rank).presence = Presence::kGone;
    std::erase_if(boxes_, [rank](const auto& entry) { return std::get<1>(entry.first) == rank; });
    for (Rank& each : ranks_) each.changed.notify_all();
  }

  // Matches `mine` with the other side's oldest message of the same pair and tag, or leaves it in
  // the mailbox.
  void post(int from, int to, Tag tag, const PendingPtr& mine) {
    PendingPtr other;
    {
      const std::lock_guard lock(mutex_);
      at(mine->receiving ? to : from).last_sign = steady_now();
      auto& box = boxes_[{from, to, tag}];
      if (box.empty() || box.front()->receiving == mine->receiving) {
        if (mine->region.owner == nullptr) take_ownership(*mine);
        box.push_back(mine);
        return;
      }
      other = box.front();
      box.pop_front();
      if (box.empty()) boxes_.erase({from, to, tag});
    }
    // Outside the lock: both are out of the mailbox, and neither is looked at again before it is
    // done.
    Pending& sent = mine->receiving ? *other : *mine;
    Pending& received = mine->receiving ? *mine : *other;
    copy(sent.region.bytes, received.region.bytes);
    const std::lock_guard lock(mutex_);
    sent.size = received.size = sent.region.bytes.size();
    sent.done = received.done = true;
    at(from).changed.notify_all();
    at(to).changed.notify_all();
  }

  enum class Outcome { kDone, kDeadline, kPeerGone };

  Outcome wait(int rank, const Pending& mine, const std::optional<Seconds>& deadline) {
    std::unique_lock lock(mutex_);
    const auto settled = [&] { return mine.done || at(mine.peer).presence == Presence::kGone; };
    if (deadline) {
      at(rank).changed.wait_for(lock, std::chrono::duration<double>(deadline->value), settled);
    } else {
      at(rank).changed.wait(lock, settled);
    }
    if (mine.done) return Outcome::kDone;
    return at(mine.peer).presence == Presence::kGone ? Outcome::kPeerGone : Outcome::kDeadline;
  }

  Seconds silent_for(int rank) {
    const std::lock_guard lock(mutex_);
    return steady_now() - at(rank).last_sign;
  }

 private:
  enum class Presence { kAwaited, kHere, kGone };
  struct Rank {
    Presence presence = Presence::kAwaited;
    Seconds last_sign = steady_now();
    std::condition_variable changed;  // one of this rank's messages is done, or somebody has left
  };

  static void take_ownership(Pending& pending) {
    const Buffer<std::byte> own(pending.region.bytes.size());
    if (pending.receiving) {
      pending.staged_for = pending.region.bytes;
    } else {
      copy(pending.region.bytes, own.span());
    }
    pending.region = region_of(own);
  }

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  std::mutex mutex_;
  std::deque<Rank> ranks_;
  std::map<std::tuple<int, int, Tag>, std::deque<PendingPtr>>
      boxes_;  // by (from, to, tag); all sends or all receives
};

namespace {

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Mailboxes> mailboxes, int rank)
      : mailboxes_(std::move(mailboxes)), rank_(rank) {}
  ~LocalCommunicator() override { mailboxes_->leave(rank_); }
  LocalCommunicator(const LocalCommunicator&) = delete;
  LocalCommunicator& operator=(const LocalCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return mailboxes_->size(); }

  Ticket send(int peer, Tag tag, Region message) override {
    return post(peer, tag, {.peer = peer, .receiving = false, .region = std::move(message)});
  }
  Ticket receive(int peer, Tag tag, Region room) override {
    return post(peer, tag, {.peer = peer, .receiving = true, .region = std::move(room)});
  }

  Bytes wait(Ticket ticket, const Patience& patience) override {
    life_.check();
    const auto node = pending_.extract(ticket);
    require(!node.empty(), "comm/local: ticket {} is not under way",
            static_cast<std::uint64_t>(ticket));
    const Pending& mine = *node.mapped();
    const Seconds start = now();
    const auto outcome = mailboxes_->wait(rank_, mine, patience.deadline);
    Failure failure{rank_,
                    mine.peer,
                    {static_cast<std::int64_t>(mine.region.bytes.size())},
                    patience.place,
                    mine.receiving,
                    "",
                    ""};
    if (outcome == Mailboxes::Outcome::kDeadline) {
      life_.fail(deadline_passed(failure, now() - start, *patience.deadline,
                                 mailboxes_->silent_for(mine.peer)));
    }
    if (outcome == Mailboxes::Outcome::kPeerGone) {
      failure.reason = "the peer has left";
      life_.fail(failure);
    }
    const bool fits = mine.size <= mine.region.bytes.size();
    copy(mine.region.bytes.first(mine.receiving && fits ? mine.size : 0), mine.staged_for);
    return {static_cast<std::int64_t>(mine.size)};
  }

  void all_reduce(const Floats&, const Patience&) override {
    throw ContractError("comm/local: threads have no all-reduce of their own");
  }

  [[nodiscard]] Capabilities capabilities() const override {
    return {.own_all_reduce = false, .threads = true, .simulated = false, .tells_length = true};
  }
  [[nodiscard]] Seconds now() const override { return steady_now(); }

 private:
  Ticket post(int peer, Tag tag, Pending message) {
    life_.check();
    check_message(*this, peer, tag);
    const auto mine = std::make_shared<Pending>(std::move(message));
    mailboxes_->post(mine->receiving ? peer : rank_, mine->receiving ? rank_ : peer, tag, mine);
    const Ticket ticket{next_ticket_++};
    pending_.emplace(ticket, mine);
    return ticket;
  }

  std::shared_ptr<Mailboxes> mailboxes_;
  const int rank_;
  Lifeline life_;
  std::uint64_t next_ticket_ = 0;
  std::unordered_map<Ticket, PendingPtr> pending_;
};

}  // namespace

Group::Group(int size) {
  require(size >= 1, "comm/local: a group of {} ranks", size);
  mailboxes_ = std::make_shared<Mailboxes>(size);
}

std::unique_ptr<Communicator> Group::join(int rank) const {
  require(rank >= 0 && rank < mailboxes_->size(), "comm/local: rank {} is not in 0..{}", rank,
          mailboxes_->size() - 1);
  mailboxes_->join(rank);
  return std::make_unique<LocalCommunicator>(mailboxes_, rank);
}

}  // namespace pliant::comm::local
