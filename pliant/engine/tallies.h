// SPDX-License-Identifier: MIT
// Sums over all exchanges so far, for the summary. Any thread may add.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "pliant/engine/state.h"
#include "pliant/exchange/terms.h"

namespace pliant::engine {

class Tallies {
 public:
  void add(const exchange::Report& report) {
    const std::lock_guard lock(mutex_);
    ++exchanges_;
    voids_ += report.is_void ? 1 : 0;
    updated_fraction_ = report.updated_fraction;
    gain_ = report.gain;
    add_costs(report);
  }
  // Buffers that travelled beside an exchange: their bytes and times count, they are no exchange.
  void add_beside(const exchange::Report& report) {
    const std::lock_guard lock(mutex_);
    add_costs(report);
  }
  // Of a training thread, for an exchange of updates.
  void add_wait(Seconds waited) {
    const std::lock_guard lock(mutex_);
    exposed_ += waited;
  }
  // Outside exchanges.
  void add_sent(Bytes bytes) {
    const std::lock_guard lock(mutex_);
    sent_ += bytes;
  }
  void write(Summary& summary) const {
    const std::lock_guard lock(mutex_);
    summary.exchanges = exchanges_;
    summary.voids = voids_;
    summary.sent = sent_;
    summary.on_the_wire = wire_;
    summary.coding = coding_;
    const double all = (wire_ + encode_and_decode_).value;
    summary.overlap = all > 0 ? std::clamp(1 - exposed_.value / all, 0.0, 1.0) : 0;
    summary.updated_fraction = updated_fraction_;
    summary.gain = gain_;
  }

 private:
  void add_costs(const exchange::Report& report) {
    sent_ += report.traffic.sent;
    wire_ += report.wire;
    coding_ += report.select + report.encode + report.decode;
    encode_and_decode_ += report.encode + report.decode;
    exposed_ += report.encoded_at_departure;
  }

  mutable std::mutex mutex_;
  std::uint64_t exchanges_ = 0;
  std::uint64_t voids_ = 0;
  Bytes sent_;
  Seconds wire_;
  Seconds coding_;
  Seconds encode_and_decode_;  // of coding
  Seconds exposed_;            // of encode, decode and wire: in the training thread, or waited for
  double updated_fraction_ = 1;
  double gain_ = 1;
};

}  // namespace pliant::engine
