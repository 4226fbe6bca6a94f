// SPDX-License-Identifier: MIT
// Runner of schedules. A block is a span of floats or a payload; the runner does not know which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pliant/comm/communicator.h"
#include "pliant/schedule/schedule.h"

namespace pliant::exchange {

// Blocks that a schedule is run over. The regions outlive the call that returns them until the
// schedule has been run.
class Blocks {
 public:
  virtual ~Blocks() = default;

  // The message that carries these blocks, as they are now. They do not change before it has been
  // sent. on_arrival is what the receiver will do with them.
  [[nodiscard]] virtual comm::Region outgoing(const schedule::Move& move,
                                              schedule::OnArrival on_arrival) = 0;

  // Room for the message that will carry these blocks. Asked for once per receive, in order, before
  // anything is sent.
  [[nodiscard]] virtual comm::Region room(const schedule::Move& move,
                                          schedule::OnArrival on_arrival) = 0;

  // Something arrived that cannot be right: it was longer than its room, and is lost. The schedule
  // goes on; the owner of the blocks fails at its end.
  virtual void refuse(const std::string& why);

  // The message has arrived at the front of its room; where the backend does not tell its length
  // (comm::Capabilities), the whole room is handed over and anything may follow the message. Throws
  // only what ends the whole exchange, messages under way included.
  virtual void arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
                       const comm::Region& message) = 0;
};

struct RunOptions {
  comm::Tag tag = 0;                // one collective at a time per tag and communicator
  std::optional<Seconds> deadline;  // for each message
  std::uint64_t plan_version = 0;   // for the text of errors
};

struct Traffic {
  Seconds entered;
  Seconds finished;
  Bytes sent;
  int messages = 0;
  Seconds encode;  // of the time between, in outgoing(), by this thread's processor
  Seconds decode;  // and in arrived()
  Traffic& operator+=(const Traffic& next);  // the one that followed
};

// Blocks until this rank's part is done. All receives are posted before the first send, since some
// backends move data only then; a round's sends finish before the next round starts, since sends
// that overlap share the port and delay each other.
Traffic run(comm::Communicator& communicator, const schedule::Schedule& schedule, Blocks& blocks,
            const RunOptions& options);

}  // namespace pliant::exchange
