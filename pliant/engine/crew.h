// SPDX-License-Identifier: MIT
// What both kinds of exchange work with: lanes, the records' lane, the first fault, and the tallies
// for the summary.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "pliant/engine/common_share.h"
#include "pliant/engine/engine.h"
#include "pliant/engine/fault.h"
#include "pliant/engine/journal.h"
#include "pliant/engine/lane.h"
#include "pliant/engine/records.h"
#include "pliant/exchange/terms.h"

namespace pliant::engine {

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
  Fault fault;
  Tallies tallies;
  std::vector<std::unique_ptr<Lane>> lanes;  // at least one
  std::unique_ptr<Lane> control_lane;  // none: the first lane's communicator serves, in the caller
  std::unique_ptr<Records> records;
  std::unique_ptr<Journal> journal;  // none: nobody wants to know
  CommonShare common_share;          // updates, with an optimizer that divides by a second moment

  [[nodiscard]] Lane& lane(std::uint64_t number) { return *lanes[number % lanes.size()]; }
  [[nodiscard]] Seconds now() const { return lanes.front()->communicator().now(); }
  [[nodiscard]] int ranks() const { return lanes.front()->communicator().size(); }
};

}  // namespace pliant::engine
