// SPDX-License-Identifier: MIT
// What Gloo does, as found in its sources and in trials:
//  - Work::wait(timeout) that passes closes every connection of the group ("Timed out waiting"), so
//  the peers see "Connection
//    closed by peer" at once; so do those of a process that ends. Both are told apart below by
//    Gloo's words.
//  - A Work that is destroyed takes its memory out of Gloo's hands, under a lock: nothing is
//  written there afterwards.
//  - Collectives put a prefix of their own beside their tag (gloo/types.h), messages do not; the
//  one collective that is called
//    on a communicator, all_reduce(), has nothing else under way beside it, so the two would not
//    meet even if they could.
#include "pliant/comm/c10d/communicator.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <thread>
#include <unordered_map>

#include "pliant/comm/culprit.h"
#include "pliant/comm/lifeline.h"
#include "pliant/common/errors.h"

namespace pliant::comm::c10d {
namespace {

using std::chrono::milliseconds;
using WorkPtr = c10::intrusive_ptr<::c10d::Work>;
using StorePtr = c10::intrusive_ptr<::c10d::Store>;

// Zero would mean the group's own timeout. Ten years in nanoseconds still fit into Gloo's clock.
constexpr milliseconds kForEver{std::chrono::hours{24 * 365 * 10}};
constexpr milliseconds kShortest{1};
constexpr milliseconds kBetweenLooks{20};
constexpr int kHangUpTag = static_cast<int>(kLargestTag) + 1;  // nobody sends with it

milliseconds timeout_of(const std::optional<Seconds>& deadline) {
  if (!deadline) return kForEver;
  const double wanted = std::ceil(deadline->value * 1000);
  return milliseconds(std::llround(std::clamp(wanted, 1.0, static_cast<double>(kForEver.count()))));
}

Seconds steady_now() {
  return {
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

struct Pending {
  int peer;
  bool receiving;
  Region region;                    // has an owner, but for an all-reduce without a deadline
  std::span<std::byte> staged_for;  // a receive without an owner: where its caller wants the bytes
  WorkPtr work;
};

// The tensor shares the ownership of the memory.
at::Tensor tensor_over(const Region& region, at::ScalarType type) {
  const auto count = static_cast<std::int64_t>(region.bytes.size() / c10::elementSize(type));
  return at::from_blob(
      region.bytes.data(), {count}, [owner = region.owner](void*) {}, at::TensorOptions(type));
}

Region own_copy(std::span<const std::byte> bytes) {
  const Buffer<std::byte> copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return region_of(copy);
}

// The first line of what the backend says, without the place in its sources: "[/a/b.cc:12]
// Connection closed by peer".
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  const std::size_t end = line.find("] ");
  if (line.starts_with("[/") && end != std::string::npos) line.erase(0, end + 2);
  return line;
}

bool says_any(const std::string& text, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(
      parts, [&](const char* part) { return text.find(part) != std::string::npos; });
}
bool says_gone(const std::string& text) {
  return says_any(text, {"Connection closed by peer", "Connection reset", "Broken pipe",
                         "Socket closed", "not connected"});
}
bool says_late(const std::string& text) { return says_any(text, {"imed out"}); }

// What the others said before they gave up, or why they could not be asked.
struct Answers {
  std::vector<Wait> waits;
  std::string trouble;
};

std::string key_of(int rank) { return "waits/" + std::to_string(rank); }

// Where ranks leave their words: here, and their first word of all.
struct Stores {
  StorePtr here;
  StorePtr common;  // or none

  void leave(const Wait& mine) const {
    const std::string word = to_string(mine);
    here->set(key_of(mine.rank), word);
    const std::string none_yet;
    if (common) (void)common->compareSet(key_of(mine.rank), none_yet, word);
  }
};

std::optional<Wait> word_of(int rank, ::c10d::Store& store) {
  if (!store.check({key_of(rank)})) return std::nullopt;
  const auto bytes = store.get(key_of(rank));
  const auto wait = parse_wait({bytes.begin(), bytes.end()});
  return wait && wait->rank == rank ? wait : std::nullopt;
}

// Listens until everybody has left a word here, at most for `patience`; who has left none by then
// may have left one elsewhere. A store that fails has said all that it will.
Answers listen(const Stores& stores, const Wait& mine, int size, Seconds patience) {
  Answers answers{.waits = {mine}, .trouble = ""};
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (rank != mine.rank) missing.push_back(rank);
  }
  const auto look = [&](::c10d::Store& store) {
    std::erase_if(missing, [&](int rank) {
      const auto word = word_of(rank, store);
      if (word) answers.waits.push_back(*word);
      return word.has_value();
    });
  };
  const Seconds until = steady_now() + patience;
  while (true) {
    look(*stores.here);
    if (missing.empty() || steady_now() >= until) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  if (stores.common) look(*stores.common);
  return answers;
}

// Leaves a word and asks the others, on a thread of its own since a store whose server has gone may
// block for minutes: it is then left behind. `in_between` runs once the word is there to be read.
template <typename InBetween>
Answers ask(const Stores& stores, const Wait& mine, int size, Seconds patience,
            const InBetween& in_between) {
  std::promise<void> written;
  std::promise<Answers> heard;
  auto is_written = written.get_future();
  auto is_heard = heard.get_future();
  std::thread thread([stores, mine, size, patience, written = std::move(written),
                      heard = std::move(heard)]() mutable {
    bool said = false;
    try {
      stores.leave(mine);
      written.set_value();
      said = true;
      heard.set_value(listen(stores, mine, size, patience));
    } catch (const std::exception& e) {
      if (!said) written.set_value();
      heard.set_value({.waits = {mine}, .trouble = "the store: " + first_line(e.what())});
    }
  });
  // One end for both waits: whoever asked waits no longer than it was told, and hangs up well
  // before.
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [](double value) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(value));
  };
  (void)is_written.wait_until(begin + seconds(patience.value / 4));
  in_between();
  if (is_heard.wait_until(begin + seconds(patience.value + 0.5)) == std::future_status::ready) {
    thread.join();
    return is_heard.get();
  }
  thread.detach();
  return {.waits = {mine}, .trouble = "the store does not answer"};
}

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(c10::intrusive_ptr<::c10d::Backend> backend, Options options)
      : backend_(std::move(backend)),
        options_(std::move(options)),
        rank_(backend_->getRank()),
        size_(backend_->getSize()),
        last_sign_(static_cast<std::size_t>(size_), now()) {
    require(options_.names.empty() || options_.names.size() == static_cast<std::size_t>(size_),
            "comm/c10d: {} names for {} ranks", options_.names.size(), size_);
  }
  // Messages under way lose their memory here; on a connection that stayed open, Gloo's thread
  // would look for it for ever.
  ~C10dCommunicator() override {
    if (!pending_.empty() && !life_.dead()) hang_up();
  }
  C10dCommunicator(const C10dCommunicator&) = delete;
  C10dCommunicator& operator=(const C10dCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  Ticket send(int peer, Tag tag, Region message) override {
    return start({.peer = peer,
                  .receiving = false,
                  .region = message.owner ? std::move(message) : own_copy(message.bytes)},
                 tag);
  }

  Ticket receive(int peer, Tag tag, Region room) override {
    if (room.owner) return start({.peer = peer, .receiving = true, .region = std::move(room)}, tag);
    const Buffer<std::byte> own(room.bytes.size());
    return start(
        {.peer = peer, .receiving = true, .region = region_of(own), .staged_for = room.bytes}, tag);
  }

  Bytes wait(Ticket ticket, const Patience& patience) override {
    life_.check();
    const auto found = pending_.find(ticket);
    require(found != pending_.end(), "comm/c10d: ticket {} is not under way",
            static_cast<std::uint64_t>(ticket));
    const Pending& pending = found->second;
    attempt(pending, patience, [&] { finish(pending, patience); });
    last_sign_[static_cast<std::size_t>(pending.peer)] = now();
    if (!pending.staged_for.empty())
      std::memcpy(pending.staged_for.data(), pending.region.bytes.data(),
                  pending.staged_for.size());
    const Bytes bytes{static_cast<std::int64_t>(pending.region.bytes.size())};
    pending_.erase(found);
    return bytes;
  }

  // Once a deadline has passed, Gloo's threads may still write: the memory must have an owner, or
  // be a copy.
  void all_reduce(const Floats& floats, const Patience& patience) override {
    life_.check();
    if (floats.data.empty()) return;
    const auto bytes = std::as_writable_bytes(floats.data);
    const bool copied = patience.deadline && floats.owner == nullptr;
    const Ticket ticket{next_ticket_++};
    Pending& pending = pending_
                           .emplace(ticket, Pending{.peer = -1,
                                                    .receiving = false,
                                                    .region = copied ? own_copy(bytes)
                                                                     : Region{bytes, floats.owner}})
                           .first->second;
    attempt(pending, patience, [&] {
      std::vector<at::Tensor> tensors = {tensor_over(pending.region, at::kFloat)};
      ::c10d::AllreduceOptions how;
      how.reduceOp = ::c10d::ReduceOp::SUM;
      how.timeout = timeout_of(patience.deadline);
      pending.work = backend_->allreduce(tensors, how);
      finish(pending, patience);
    });
    if (copied) std::memcpy(bytes.data(), pending.region.bytes.data(), bytes.size());
    pending_.erase(ticket);
  }

  [[nodiscard]] Capabilities capabilities() const override {
    return {.own_all_reduce = true, .threads = true, .simulated = false, .tells_length = false};
  }
  [[nodiscard]] Seconds now() const override { return steady_now(); }

 private:
  Ticket start(Pending pending, Tag tag) {
    life_.check();
    check_message(*this, pending.peer, tag);
    attempt(pending, {}, [&] {
      std::vector<at::Tensor> tensors = {tensor_over(pending.region, at::kByte)};
      pending.work = pending.receiving
                         ? backend_->recv(tensors, pending.peer, static_cast<int>(tag))
                         : backend_->send(tensors, pending.peer, static_cast<int>(tag));
    });
    const Ticket ticket{next_ticket_++};
    pending_.emplace(ticket, std::move(pending));
    return ticket;
  }

  static void finish(const Pending& pending, const Patience& patience) {
    if (!pending.work->wait(timeout_of(patience.deadline)))
      throw std::runtime_error("the backend gave it up");
  }

  // Whatever the backend throws becomes CommError.
  template <typename Action>
  void attempt(const Pending& pending, const Patience& patience, const Action& action) {
    const Seconds begin = now();
    try {
      action();
    } catch (const std::exception& e) {
      give_up(judged(pending, patience, now() - begin, e.what()));
    }
  }

  [[nodiscard]] Failure judged(const Pending& pending, const Patience& patience, Seconds waited,
                               const std::string& said) const {
    Failure failure{.rank = rank_,
                    .peer = pending.peer,
                    .bytes = {static_cast<std::int64_t>(pending.region.bytes.size())},
                    .place = patience.place,
                    .receiving = pending.receiving,
                    .name = pending.peer < 0 || options_.names.empty()
                                ? ""
                                : options_.names[static_cast<std::size_t>(pending.peer)]};
    if (says_gone(said)) {
      failure.reason = pending.peer < 0 ? "the connection was closed by a peer"
                                        : "the connection was closed by the peer";
      failure.advice =
          "It ended, or gave up on another rank: see its own error, and docs/errors.md.";
      return failure;
    }
    if (patience.deadline && (says_late(said) || waited >= *patience.deadline)) {
      const Seconds sign = pending.peer < 0 ? std::ranges::max(last_sign_)
                                            : last_sign_[static_cast<std::size_t>(pending.peer)];
      return deadline_passed(failure, waited, *patience.deadline, now() - sign);
    }
    failure.reason = first_line(said);
    return failure;
  }

  // Tells the others, then hangs up so that they do not wait for this rank any longer, then finds
  // out what held it up.
  [[noreturn]] void give_up(const Failure& failure) {
    if (size_ > 1 && !options_.store) {
      hang_up();
      life_.fail(without_findings(failure, "no store was given"));
    }
    if (size_ == 1) life_.fail(failure);
    const Wait mine{.rank = rank_, .peer = failure.peer, .place = failure.place};
    const Answers answers =
        ask({options_.store, options_.common}, mine, size_, options_.asking, [this] { hang_up(); });
    life_.fail(answers.trouble.empty() ? with_findings(failure, follow(answers.waits, rank_, size_))
                                       : without_findings(failure, answers.trouble));
  }

  // Gloo has no call for it, but closes all connections of a wait that lasted too long. Connections
  // closed already, and messages that are done, make no difference.
  void hang_up() {
    for (auto& [ticket, pending] : pending_) {
      if (pending.peer >= 0) (void)lasts_too_long([&work = pending.work] { return work; });
    }
    const Buffer<std::byte> nothing(1);
    std::vector<at::Tensor> tensors = {tensor_over(region_of(nothing), at::kByte)};
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_ &&
          lasts_too_long([&] { return backend_->recv(tensors, peer, kHangUpTag); }))
        return;
    }
  }
  template <typename Begin>
  static bool lasts_too_long(const Begin& begin) {
    try {
      (void)begin()->wait(kShortest);
      return false;
    } catch (const std::exception& e) {
      return says_late(e.what());
    }
  }

  c10::intrusive_ptr<::c10d::Backend> backend_;
  Options options_;
  const int rank_;
  const int size_;
  Lifeline life_;
  std::uint64_t next_ticket_ = 0;
  std::unordered_map<Ticket, Pending> pending_;
  std::vector<Seconds> last_sign_;
};

}  // namespace

std::unique_ptr<Communicator> over(c10::intrusive_ptr<::c10d::Backend> backend, Options options) {
  require(static_cast<bool>(backend), "comm/c10d: no backend");
  return std::make_unique<C10dCommunicator>(std::move(backend), std::move(options));
}

}  // namespace pliant::comm::c10d
