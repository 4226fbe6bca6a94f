// SPDX-License-Identifier: MIT
// Services that both kinds of exchange share: lanes, control records, the first failure, sums for
// the summary, the run log's observer.
#pragma once

#include <memory>
#include <vector>

#include "pliant/agree/records.h"
#include "pliant/common/first_failure.h"
#include "pliant/common/log.h"
#include "pliant/engine/lane.h"
#include "pliant/engine/tallies.h"
#include "pliant/runlog/observer.h"

namespace pliant::engine {

struct Services {
  FirstFailure failure;
  Tallies tallies;
  runlog::Observer observer;
  std::unique_ptr<agree::Records> records;
  std::vector<std::unique_ptr<Lane>> lanes;  // at least one
  std::unique_ptr<Lane> control_lane;        // null: the first lane, in the caller's thread
  Log log;                                   // the user's callback; may be empty
  std::uint16_t part = 0;                    // of the model, that this rank exchanges

  [[nodiscard]] Lane& lane(std::uint64_t number) const { return *lanes[number % lanes.size()]; }
  [[nodiscard]] Lane& record_lane() const { return control_lane ? *control_lane : *lanes.front(); }
  [[nodiscard]] bool has_threads() const { return control_lane != nullptr; }
  [[nodiscard]] Seconds now() const { return lanes.front()->communicator().now(); }
  // Among all ranks, as control records count them.
  [[nodiscard]] int rank() const { return record_lane().communicator().rank(); }
  [[nodiscard]] int everybody() const { return record_lane().communicator().size(); }
  // The number of ranks that exchange with each other: one from each island, or all.
  [[nodiscard]] int ranks() const { return lanes.front()->communicator().size(); }
  [[nodiscard]] bool has_parts() const { return ranks() != everybody(); }

  // Gathers this rank's record of a round with those of all ranks, in the lane for records.
  void post(agree::Record record);
  // Notes the exception being handled as the failure, and wakes threads that wait for records.
  void fail_with_current_exception();
  // Waits until every lane has done its jobs.
  void drain();

  // To the user. Warnings go to the run log too.
  void say(Severity severity, std::string_view text);
  // A log that cannot be written any more is no reason to stop: warns once.
  void warn_if_log_failed();
};

// Reports to the observer that the training thread is busy with exchanges for as long as this
// lives.
class Busy {
 public:
  explicit Busy(Services& services) : services_(services), began_(services.now()) {}
  ~Busy() { services_.observer.worked(services_.now() - began_); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  [[nodiscard]] Seconds began() const { return began_; }

 private:
  Services& services_;
  Seconds began_;
};

}  // namespace pliant::engine
