// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/net/rate.h"

#include <algorithm>

namespace pliant::lab {

BytesPerSecond Trace::mean_rate() const {
  return {bytes * static_cast<double>(opportunities.size()) /
          to_seconds(opportunities.back()).value};
}

Time Server::finish(Time start, double bytes) {
  if (rate_.trace) return finish_by_trace(start, bytes);
  if (rate_.unlimited()) return start;
  return start + Time(std::llround(bytes / rate_.limit.value * 1e9));
}

// The packet takes opportunities from the first one not before `start`, and is through at the one
// that covers its last byte. What that one has left serves the next packet, if it is ready by then.
Time Server::finish_by_trace(Time start, double bytes) {
  skip_to(start);
  while (true) {
    if (left_ < 0) left_ = rate_.trace->bytes;
    if (bytes <= left_) break;
    bytes -= left_;
    left_ = -1;
    ++next_;
  }
  left_ -= bytes;
  return opportunity(next_);
}

Time Server::opportunity(std::int64_t index) const {
  const auto& times = rate_.trace->opportunities;
  const auto count = static_cast<std::int64_t>(times.size());
  return trace_start_ + times.back() * (index / count) +
         times[static_cast<std::size_t>(index % count)];
}

// Whole periods are skipped by arithmetic, the rest by bisection, so that an hour of idling costs
// nothing.
void Server::skip_to(Time start) {
  if (opportunity(next_) >= start) return;
  const auto& times = rate_.trace->opportunities;
  const std::int64_t period = (start - trace_start_) / times.back();
  const Time rest = start - trace_start_ - times.back() * period;
  const auto within = std::ranges::lower_bound(times, rest) - times.begin();
  next_ = period * static_cast<std::int64_t>(times.size()) + within;
  left_ = -1;
}

}  // namespace pliant::lab
