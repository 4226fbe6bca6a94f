// SPDX-License-Identifier: MIT
#include "pliant/exchange/run.h"

#include <fmt/format.h>

#include <vector>

#include "pliant/common/errors.h"
#include "pliant/common/processor_time.h"

namespace pliant::exchange {
namespace {

// Coding is taken off the time on the wire. By the processor's clock: while this thread waits for a
// processor, messages go on arriving.
Seconds coding_clock(const comm::Communicator& communicator) {
  return communicator.capabilities().simulated ? communicator.now() : processor_time();
}

}  // namespace

Traffic& Traffic::operator+=(const Traffic& next) {
  finished = next.finished;
  sent += next.sent;
  messages += next.messages;
  encode += next.encode;
  decode += next.decode;
  return *this;
}

void Blocks::refuse(const std::string& why) { throw ContractError(why); }

Traffic run(comm::Communicator& communicator, const schedule::Schedule& schedule, Blocks& blocks,
            const RunOptions& options) {
  struct Incoming {
    comm::Ticket ticket;
    comm::Region room;
  };
  Traffic traffic{.entered = communicator.now()};

  std::vector<Incoming> incoming;  // of all rounds, in order
  for (const schedule::Round& round : schedule) {
    for (const schedule::Move& move : round.receives) {
      comm::Region room = blocks.room(move, round.on_arrival);
      const comm::Ticket ticket = communicator.receive(move.peer, options.tag, room);
      incoming.push_back({ticket, std::move(room)});
    }
  }

  auto next = incoming.begin();
  std::vector<comm::Ticket> sending;
  comm::Patience patience{
      .deadline = options.deadline,
      .place = {.rounds = static_cast<int>(schedule.size()), .plan_version = options.plan_version}};
  for (const schedule::Round& round : schedule) {
    ++patience.place.round;
    sending.clear();
    for (const schedule::Move& move : round.sends) {
      const Seconds before = coding_clock(communicator);
      comm::Region message = blocks.outgoing(move, round.on_arrival);
      traffic.encode += coding_clock(communicator) - before;
      traffic.sent += Bytes{static_cast<std::int64_t>(message.bytes.size())};
      ++traffic.messages;
      sending.push_back(communicator.send(move.peer, options.tag, std::move(message)));
    }
    for (const comm::Ticket ticket : sending) communicator.wait(ticket, patience);
    for (const schedule::Move& move : round.receives) {
      const auto size = static_cast<std::size_t>(communicator.wait(next->ticket, patience).value);
      const Seconds before = coding_clock(communicator);
      const std::size_t room = next->room.bytes.size();
      if (size <= room) {
        blocks.arrived(move, round.on_arrival, {next->room.bytes.first(size), next->room.owner});
      } else {
        blocks.refuse(
            fmt::format("rank {} sent more than the {} bytes that there is room for: do the ranks "
                        "run the same plan?",
                        move.peer, room));
      }
      traffic.decode += coding_clock(communicator) - before;
      ++next;
    }
  }
  traffic.finished = communicator.now();
  return traffic;
}

}  // namespace pliant::exchange
