// SPDX-License-Identifier: MIT
// All-gathers control records in a lane of their own, and keeps them until they are taken in.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "pliant/engine/fault.h"
#include "pliant/engine/lane.h"
#include "pliant/engine/record.h"
#include "pliant/exchange/run.h"
#include "pliant/exchange/workspace.h"

namespace pliant::engine {

class Records {
 public:
  // The lane must end before its records do. `tag` keeps apart what shares its communicator with
  // exchanges.
  Records(Lane& lane, Fault& fault, std::optional<Seconds> deadline, comm::Tag tag);

  // This rank's record of a step. All ranks post the same steps in the same order. Returns at once
  // if the lane is a thread.
  void post(Record mine);

  struct Gathered {
    std::vector<Record> records;  // by rank
    Bytes sent;                   // by this rank, to gather them
  };
  // Everybody's records of that step: blocks until they are here, and forgets them. Throws what
  // went wrong.
  [[nodiscard]] Gathered take(std::uint64_t step);
  // The same, if they are here already.
  [[nodiscard]] std::optional<Gathered> take_if_here(std::uint64_t step);

  // The same, and they stay.
  [[nodiscard]] std::vector<Record> look(std::uint64_t step);
  // Those that nobody has taken: a restored state begins anew.
  void forget();
  // A fault was noted elsewhere: nobody shall wait for records that will not come.
  void wake();

  // Of all gatherings: what this rank sent, and how long it was at them.
  struct Total {
    Bytes sent;
    Seconds took;
  };
  [[nodiscard]] Total total() const;

 private:
  void gather(comm::Communicator& communicator, Record mine);

  Lane& lane_;
  Fault& fault_;
  const std::optional<Seconds> deadline_;
  const comm::Tag tag_;
  exchange::Workspace workspace_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint64_t, Gathered> here_;  // by step
  Total total_;
  float last_duration_ = 0;
};

}  // namespace pliant::engine
