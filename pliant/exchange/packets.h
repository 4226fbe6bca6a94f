// SPDX-License-Identifier: MIT
// Packets and Parts: payloads as blocks of a schedule. A message may carry several payloads, one
// after the other; the header of each says where it ends.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/exchange/complaint.h"
#include "pliant/exchange/run.h"
#include "pliant/exchange/workspace.h"

namespace pliant::exchange {

// The payloads as one message: as it lies if there is one, else copied side by side. A long message
// has memory of its own, which is free again once it is sent.
[[nodiscard]] comm::Region pack(std::span<const comm::Region> payloads, Workspace& workspace);

// Room for payloads whose front is no payload: where the backend does not tell lengths, a message
// that is empty or cut short must not be completed by what an earlier exchange left there. (The
// checksum sees to the rest.)
[[nodiscard]] comm::Region room_for(std::size_t bytes, Workspace& workspace);

// Cuts a message into `count` payloads. Throws CorruptPayload if it does not begin with that many.
// Bytes after them are ignored: a backend that does not tell lengths returns the whole buffer.
[[nodiscard]] std::vector<comm::Region> unpack(const comm::Region& message, std::size_t count);

// An all-gather of payloads that stay the same on the way: block b is rank b's.
//
// Payloads are shorter than their rooms. Each one that arrives is moved down to the end of the
// last, over room that nothing else will use, so that messages of several payloads can be sent as
// they lie. That holds for rooms that are filled in the order in which they were asked for, which
// schedules do; others stay where they are, and are copied side by side.
class Packets final : public Blocks {
 public:
  // bounds[b]: the most bytes that block b can have.
  Packets(std::vector<std::size_t> bounds, Workspace& workspace, Complaint& complaint);

  void put(int b, comm::Region payload);
  // Bytes of the longest message that was put together in memory of its own.
  [[nodiscard]] std::size_t packed() const { return packed_; }
  // By block. Empty where something else arrived, of which the complaint knows.
  [[nodiscard]] const std::vector<comm::Region>& payloads() const { return payloads_; }

  comm::Region outgoing(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  comm::Region room(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  void arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
               const comm::Region& message) override;
  void refuse(const std::string& why) override { complaint_.refuse(why); }

 private:
  std::vector<std::size_t> bounds_;
  std::vector<comm::Region> payloads_;
  Workspace& workspace_;
  [[nodiscard]] static bool follows(const comm::Region& last, const comm::Region& next);
  void move_down(comm::Region& payload);

  Complaint& complaint_;
  std::size_t packed_ = 0;
  comm::Region run_;                    // payloads that lie one after the other
  std::deque<const std::byte*> rooms_;  // that wait for their message, oldest first
};

// A broadcast of one payload, cut into parts. Only the root knows the payload's length: each
// message begins with it.
class Parts final : public Blocks {
 public:
  // At the root, `payload` is sent; elsewhere it is empty and at most `bound` bytes are
  // accepted.
  Parts(const comm::Region& payload, std::size_t bound, int count, Workspace& workspace,
        Complaint& complaint);

  [[nodiscard]] comm::Region payload() const { return {whole_.bytes.first(length_), whole_.owner}; }

  comm::Region outgoing(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  comm::Region room(const schedule::Move& move, schedule::OnArrival on_arrival) override;
  void arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
               const comm::Region& message) override;
  void refuse(const std::string& why) override { complaint_.refuse(why); }

 private:
  [[nodiscard]] std::span<std::byte> part(int b) const;

  std::size_t count_;
  std::size_t bound_;
  comm::Region whole_;
  std::size_t length_;
  Workspace& workspace_;
  Complaint& complaint_;
};

}  // namespace pliant::exchange
