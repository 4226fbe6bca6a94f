// SPDX-License-Identifier: MIT
#include "pliant/comm/mpi/communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "pliant/comm/lifeline.h"
#include "pliant/common/errors.h"

namespace pliant::comm::mpi {
namespace {

#ifdef PLIANT_SMPI
constexpr bool kSimulated = true;
#else
constexpr bool kSimulated = false;
#endif

// A wait first looks again and again, since most messages are about to arrive, then pauses ever
// longer.
constexpr int kEagerLooks = 200;
constexpr std::chrono::microseconds kFirstPause{10};
constexpr std::chrono::microseconds kLongestPause{
    500};  // what a late message may lose, against a core left to others

struct Pending {
  int peer;
  bool receiving;
  Region region;                    // has an owner
  std::span<std::byte> staged_for;  // a receive without an owner: where its caller wants the bytes
  MPI_Request request = MPI_REQUEST_NULL;
};

std::string text_of(int code) {
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// Memory of messages that MPI may still touch after their communicator has gone. They are few (an
// error precedes them) and cannot be called back: MPI has no way to cancel a send. So they are kept
// for the life of the process.
void keep_for_ever(Pending pending) {
  static std::mutex mutex;
  static auto* kept = new std::vector<Pending>();
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(pending));
}

std::atomic<bool> unfinished = false;

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm parent) {
    duplicate(parent);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    check_tags();
    last_sign_.assign(static_cast<std::size_t>(size_), now());
  }
  ~MpiCommunicator() override {
    const bool clean = pending_.empty() && !life_.dead();
    for (auto& [ticket, pending] : pending_) keep_for_ever(std::move(pending));
    // Freeing is collective in spirit: with a peer gone or messages under way it might not return.
    if (clean) {
      MPI_Comm_free(&comm_);
    } else {
      unfinished = true;
    }
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  Ticket send(int peer, Tag tag, Region message) override {
    return start({.peer = peer,
                  .receiving = false,
                  .region = message.owner ? std::move(message) : own_copy(message.bytes)},
                 tag);
  }

  Ticket receive(int peer, Tag tag, Region room) override {
    if (room.owner || room.bytes.empty())
      return start({.peer = peer, .receiving = true, .region = std::move(room)}, tag);
    const Buffer<std::byte> own(room.bytes.size());
    return start(
        {.peer = peer, .receiving = true, .region = region_of(own), .staged_for = room.bytes}, tag);
  }

  Bytes wait(Ticket ticket, const Patience& patience) override {
    life_.check();
    const auto found = pending_.find(ticket);
    require(found != pending_.end(), "comm/mpi: ticket {} is not under way",
            static_cast<std::uint64_t>(ticket));
    Pending& pending = found->second;
    MPI_Status status;
    const int code = patience.deadline && !kSimulated ? poll(pending, status, patience)
                                                      : MPI_Wait(&pending.request, &status);
    if (code != MPI_SUCCESS && !is_truncation(code)) fail(pending, patience.place, text_of(code));
    last_sign_[static_cast<std::size_t>(pending.peer)] = now();
    const auto room = static_cast<std::int64_t>(pending.region.bytes.size());
    if (code != MPI_SUCCESS) {  // too long for its room; MPI does not say by how much
      pending_.erase(found);
      return {room + 1};
    }
    int count = static_cast<int>(room);
    if (pending.receiving) MPI_Get_count(&status, MPI_BYTE, &count);
    if (!pending.staged_for.empty())
      std::memcpy(pending.staged_for.data(), pending.region.bytes.data(),
                  static_cast<std::size_t>(count));
    pending_.erase(found);
    return {count};
  }

  // With a deadline it works on memory of its own, which MPI may keep if the deadline passes.
  void all_reduce(const Floats& floats, const Patience& patience) override {
    life_.check();
    const std::span<float> data = floats.data;
    require(data.size() <= INT_MAX,
            "comm/mpi: an all-reduce of {} floats; MPI takes at most {}: cut it in chunks",
            data.size(), INT_MAX);
    const auto count = static_cast<int>(data.size());
    if (!patience.deadline || kSimulated) {
      const int code = MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, comm_);
      if (code != MPI_SUCCESS)
        fail({.peer = -1, .receiving = false, .region = {std::as_writable_bytes(data), nullptr}},
             patience.place, text_of(code));
      return;
    }
    const Ticket ticket{next_ticket_++};
    const bool owned = floats.owner != nullptr;
    const Region region =
        owned ? Region{std::as_writable_bytes(data), floats.owner} : own_copy(std::as_bytes(data));
    Pending& pending =
        pending_.emplace(ticket, Pending{.peer = -1, .receiving = false, .region = region})
            .first->second;
    MPI_Status status;
    int code = MPI_Iallreduce(MPI_IN_PLACE, pending.region.bytes.data(), count, MPI_FLOAT, MPI_SUM,
                              comm_, &pending.request);
    if (code == MPI_SUCCESS) code = poll(pending, status, patience);
    if (code != MPI_SUCCESS) fail(pending, patience.place, text_of(code));
    if (!owned && count > 0)
      std::memcpy(data.data(), pending.region.bytes.data(), data.size_bytes());
    pending_.erase(ticket);
  }

  [[nodiscard]] Capabilities capabilities() const override {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return {.own_all_reduce = true,
            .threads = level == MPI_THREAD_MULTIPLE && !kSimulated,
            .simulated = kSimulated,
            .tells_length = true};
  }
  [[nodiscard]] Seconds now() const override { return {MPI_Wtime()}; }

 private:
  // The duplicate returns its errors; so does the parent while it is duplicated.
  void duplicate(MPI_Comm parent) {
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(parent, &before);
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    const int code = MPI_Comm_dup(parent, &comm_);
    MPI_Comm_set_errhandler(parent, before);
    if (code != MPI_SUCCESS) throw IoError("duplicating an MPI communicator: " + text_of(code));
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  void check_tags() const {
    int* largest = nullptr;
    int known = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&largest), &known);
    if (known != 0 && *largest < static_cast<int>(kLargestTag))
      throw IoError(fmt::format("this MPI allows tags up to {} (MPI_TAG_UB); pliant needs {}",
                                *largest, kLargestTag));
  }

  static bool is_truncation(int code) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class == MPI_ERR_TRUNCATE;
  }

  static Region own_copy(std::span<const std::byte> bytes) {
    const Buffer<std::byte> copy(bytes.size());
    if (copy.size() > 0) std::memcpy(copy.data(), bytes.data(), copy.size());
    return region_of(copy);
  }

  Ticket start(Pending pending, Tag tag) {
    life_.check();
    check_message(*this, pending.peer, tag);
    const std::size_t bytes = pending.region.bytes.size();
    require(bytes <= INT_MAX,
            "comm/mpi: a message of {} bytes; MPI takes at most {}: cut it in chunks", bytes,
            INT_MAX);
    void* data = pending.region.bytes.data();
    const auto count = static_cast<int>(bytes);
    const auto mpi_tag = static_cast<int>(tag);
    const int code =
        pending.receiving
            ? MPI_Irecv(data, count, MPI_BYTE, pending.peer, mpi_tag, comm_, &pending.request)
            : MPI_Isend(data, count, MPI_BYTE, pending.peer, mpi_tag, comm_, &pending.request);
    if (code != MPI_SUCCESS) fail(pending, {}, text_of(code));
    const Ticket ticket{next_ticket_++};
    pending_.emplace(ticket, std::move(pending));
    return ticket;
  }

  int poll(Pending& pending, MPI_Status& status, const Patience& patience) {
    const Seconds start = now();
    auto pause = kFirstPause;
    for (int looks = 0;; ++looks) {
      int done = 0;
      const int code = MPI_Test(&pending.request, &done, &status);
      if (code != MPI_SUCCESS || done != 0) return code;
      const Seconds waited = now() - start;
      if (waited > *patience.deadline) {
        life_.fail(deadline_passed(failure_of(pending, patience.place), waited, *patience.deadline,
                                   silent_for(pending.peer)));
      }
      if (looks < kEagerLooks) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  [[nodiscard]] Seconds silent_for(int peer) const {
    return now() -
           (peer < 0 ? std::ranges::max(last_sign_) : last_sign_[static_cast<std::size_t>(peer)]);
  }

  [[nodiscard]] Failure failure_of(const Pending& pending, const Place& place) const {
    return {rank_, pending.peer,      {static_cast<std::int64_t>(pending.region.bytes.size())},
            place, pending.receiving, "",
            ""};
  }
  [[noreturn]] void fail(const Pending& pending, const Place& place, const std::string& reason) {
    Failure failure = failure_of(pending, place);
    failure.reason = reason;
    life_.fail(failure);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  Lifeline life_;
  std::uint64_t next_ticket_ = 0;
  std::unordered_map<Ticket, Pending> pending_;
  std::vector<Seconds> last_sign_;
};

}  // namespace

std::unique_ptr<Communicator> over(MPI_Comm parent) {
  return std::make_unique<MpiCommunicator>(parent);
}

bool left_unfinished() { return unfinished; }

}  // namespace pliant::comm::mpi
