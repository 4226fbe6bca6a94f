// SPDX-License-Identifier: MIT
// What both kinds of exchange work with: lanes, the records' lane, the first fault, and the tallies
// for the summary.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "pliant/agree/records.h"
#include "pliant/common/first_failure.h"
#include "pliant/engine/common_share.h"
#include "pliant/engine/engine.h"
#include "pliant/engine/lane.h"
#include "pliant/exchange/terms.h"
#include "pliant/runlog/journal.h"

namespace pliant::engine {

using agree::Record;
using agree::Records;
using planner::Choice;
using planner::Outlook;
using planner::Result;
using runlog::Energies;
using runlog::Journal;
using runlog::LogDecision;
using runlog::LogHeader;
using runlog::RunLog;

// Sums over all exchanges so far.
class Tallies {
 public:
  void add(const exchange::Report& report) {
    const std::lock_guard lock(mutex_);
    ++exchanges_;
    voids_ += report.is_void ? 1 : 0;
    sent_ += report.traffic.sent;
    wire_ += report.wire;
    coding_ += report.select + report.encode + report.decode;
    updated_fraction_ = report.updated_fraction;
    gain_ = report.gain;
  }
  // What travelled with it.
  void add_beside(const exchange::Report& report) {
    const std::lock_guard lock(mutex_);
    sent_ += report.traffic.sent;
    wire_ += report.wire;
    coding_ += report.select + report.encode + report.decode;
  }
  void write(Summary& summary) const {
    const std::lock_guard lock(mutex_);
    summary.exchanges = exchanges_;
    summary.voids = voids_;
    summary.sent = sent_;
    summary.on_the_wire = wire_;
    summary.coding = coding_;
    summary.updated_fraction = updated_fraction_;
    summary.gain = gain_;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t exchanges_ = 0;
  std::uint64_t voids_ = 0;
  Bytes sent_;
  Seconds wire_;
  Seconds coding_;
  double updated_fraction_ = 1;
  double gain_ = 1;
};

struct Crew {
  FirstFailure failure;
  Tallies tallies;
  std::vector<std::unique_ptr<Lane>> lanes;  // at least one
  std::unique_ptr<Lane> control_lane;  // none: the first lane's communicator serves, in the caller
  std::unique_ptr<Records> records;
  std::unique_ptr<Journal> journal;  // none: nobody wants to know
  CommonShare common_share;          // updates, with an optimizer that divides by a second moment

  // Sends this rank's record of a round to all ranks, in the control lane if there is one.
  void post(const Record& record) {
    (control_lane != nullptr ? *control_lane : *lanes.front())
        .run([this, record](auto& communicator) {
          try {
            failure.check();
            records->gather(communicator, record);
          } catch (...) {
            failure.note(std::current_exception());
            records->wake();
          }
        });
  }
  [[nodiscard]] Lane& lane(std::uint64_t number) { return *lanes[number % lanes.size()]; }
  [[nodiscard]] Seconds now() const { return lanes.front()->communicator().now(); }
  [[nodiscard]] int ranks() const { return lanes.front()->communicator().size(); }
};

}  // namespace pliant::engine
