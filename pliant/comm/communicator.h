// SPDX-License-Identifier: MIT
// Communicator: messages between ranks over a backend such as MPI or Gloo. A new backend implements
// these eight functions and passes tests/conformance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "pliant/comm/errors.h"
#include "pliant/common/buffer.h"
#include "pliant/common/units.h"

namespace pliant::comm {

// Messages between two ranks with one tag arrive in the order they were sent. Tags go up to
// kLargestTag on every backend: the largest that every MPI must allow.
using Tag = std::uint32_t;
inline constexpr Tag kLargestTag = 32767;

// Memory of a message. The communicator shares its ownership until the message is done, so that it
// outlives an error that ends the caller. Without an owner the communicator works on a copy of its
// own.
struct Region {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

template <typename T>
[[nodiscard]] Region region_of(const Buffer<T>& buffer) {
  return {std::as_writable_bytes(buffer.span()), buffer.owner()};
}

// Floats to be summed, with the owner of their memory, as in Region.
struct Floats {
  std::span<float> data;
  std::shared_ptr<const void> owner;

  Floats() = default;
  Floats(std::span<float> unowned) : data(unowned) {}
  Floats(const Buffer<float>& buffer) : data(buffer.span()), owner(buffer.owner()) {}
  Floats(std::span<float> part, std::shared_ptr<const void> keeper)
      : data(part), owner(std::move(keeper)) {}
};

// A message under way. Waited for exactly once, by the communicator that issued it.
enum class Ticket : std::uint64_t {};

// How long a wait may last, and where in an exchange it is.
struct Patience {
  std::optional<Seconds> deadline;  // nullopt = no deadline
  Place place;
};

struct Capabilities {
  bool own_all_reduce = false;  // the backend has an all_reduce()
  bool threads =
      false;  // several communicators of one process may be used from several threads at once
  bool simulated = false;  // time is simulated: nothing may poll, and only now() tells the time
  bool tells_length =
      false;  // wait() knows how long a received message was; otherwise the reader must
};

// One rank's end of the messages. Used by one thread at a time. Once a call has thrown CommError
// the communicator is dead: every later call throws it again. Destroying it at any time is safe.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // Both start at once and return without blocking. A receive may be given more room than the
  // message has.
  [[nodiscard]] virtual Ticket send(int peer, Tag tag, Region message) = 0;
  [[nodiscard]] virtual Ticket receive(int peer, Tag tag, Region room) = 0;

  // Blocks until the message is done and returns its size. Throws CommError if the deadline passes
  // or the peer is gone. A message longer than its room is lost, and a size larger than the room is
  // returned: the communicator lives on. A backend that does not tell lengths (capabilities)
  // returns the room's size for whatever it received: the message is at the front, what follows it
  // is anything. There a message longer than its room is the end, and not always a gentle one.
  virtual Bytes wait(Ticket ticket, const Patience& patience) = 0;

  // The backend's own sum over all ranks, in place. Collective; blocks. ContractError if the
  // backend has none. CommError as from wait(), without a peer; `floats` are undefined then.
  virtual void all_reduce(const Floats& floats, const Patience& patience) = 0;

  [[nodiscard]] virtual Capabilities capabilities() const = 0;
  [[nodiscard]] virtual Seconds now() const = 0;  // monotonic; the zero point is arbitrary
};

// The checks that every backend makes first: ContractError names both operands.
void check_message(const Communicator& communicator, int peer, Tag tag);

}  // namespace pliant::comm
