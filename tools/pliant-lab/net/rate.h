// SPDX-License-Identifier: MIT
// Rate policy: the time that a link needs to transmit bytes. A rate is a number, unlimited, or a
// recorded trace.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "tools/pliant-lab/net/time.h"

namespace pliant::lab {

// A packet-delivery trace: at each of these times the link may pass `bytes`; an unused opportunity
// is lost. It repeats.
struct Trace {
  std::vector<Time> opportunities;  // from the start of the trace, not decreasing; the last is also
                                    // the period, above zero
  double bytes = 1500;
  [[nodiscard]] BytesPerSecond mean_rate() const;
};

struct Rate {
  BytesPerSecond limit{std::numeric_limits<double>::infinity()};
  std::shared_ptr<const Trace> trace;  // in place of the limit, if there is one
  bool operator==(const Rate&) const = default;
  [[nodiscard]] bool unlimited() const {
    return !trace && limit.value == std::numeric_limits<double>::infinity();
  }
  [[nodiscard]] BytesPerSecond mean() const { return trace ? trace->mean_rate() : limit; }
};

// Serves one packet after the other at a rate.
class Server {
 public:
  explicit Server(Rate rate = {}, Time trace_start = Time(0))
      : rate_(std::move(rate)), trace_start_(trace_start) {}
  [[nodiscard]] const Rate& rate() const { return rate_; }
  // When `bytes` are through if the first may go at `start`. Calls come in the order of time.
  [[nodiscard]] Time finish(Time start, double bytes);

 private:
  [[nodiscard]] Time finish_by_trace(Time start, double bytes);
  [[nodiscard]] Time opportunity(std::int64_t index) const;
  void skip_to(Time start);

  Rate rate_;
  Time trace_start_;
  std::int64_t next_ = 0;  // the opportunity in use, counted over all repetitions
  double left_ = -1;       // bytes it still has; below zero: untouched
};

}  // namespace pliant::lab
