// SPDX-License-Identifier: MIT
// Control records of all ranks, round by round: gathered over a communicator, and kept until the
// planner takes them in. Any thread may call.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "pliant/agree/record.h"
#include "pliant/comm/communicator.h"
#include "pliant/common/first_failure.h"
#include "pliant/exchange/workspace.h"

namespace pliant::agree {

class Records {
 public:
  // Waiting callers return with an exception once `failure` holds one; a thread that notes a
  // failure elsewhere calls wake(). `tag` separates records from exchanges on the same
  // communicator.
  Records(const FirstFailure& failure, std::optional<Seconds> deadline, comm::Tag tag);

  // Collective: sends this rank's record of a round to all ranks and keeps the records of all. All
  // ranks gather the same rounds in the same order, one at a time.
  void gather(comm::Communicator& communicator, Record mine);

  struct Gathered {
    std::vector<Record> records;  // by rank
    Bytes sent;                   // by this rank, to gather them
  };
  // Removes and returns all ranks' records of a round; blocks until they have arrived.
  [[nodiscard]] Gathered take(std::uint64_t round);
  // The same without blocking: nothing if they have not arrived.
  [[nodiscard]] std::optional<Gathered> take_if_here(std::uint64_t round);
  // Returns a copy without removing them; blocks until they have arrived.
  [[nodiscard]] std::vector<Record> look(std::uint64_t round);

  void clear();  // drops all records that were not taken
  void wake();   // lets waiting callers see a failure that was noted elsewhere

  // Sums over all gatherings by this rank.
  struct Total {
    Bytes sent;
    Seconds took;
  };
  [[nodiscard]] Total total() const;

 private:
  // Blocks until the round's records are in here_, or throws the failure.
  void wait_for(std::uint64_t round, std::unique_lock<std::mutex>& lock);

  const FirstFailure& failure_;
  const std::optional<Seconds> deadline_;
  const comm::Tag tag_;
  exchange::Workspace workspace_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint64_t, Gathered> here_;  // by round
  Total total_;
  float last_duration_ = 0;
};

}  // namespace pliant::agree
