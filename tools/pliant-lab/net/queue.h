// SPDX-License-Identifier: MIT
// Queue policy: drop-tail, bounded in packets, bytes or time. Without a bound of its own it takes
// the larger of 50 ms at the rate and 64 packets: enough for one TCP flow at any rate, never
// seconds of delay on a fast link.
#pragma once

#include <cstdint>

#include "tools/pliant-lab/net/rate.h"

namespace pliant::lab {

struct QueueLimit {
  enum class Unit { kDefault, kPackets, kBytes, kTime };
  Unit unit = Unit::kDefault;
  double amount = 0;  // packets, bytes or seconds
  bool operator==(const QueueLimit&) const = default;
};

inline constexpr double kDefaultQueueSeconds = 0.05;
inline constexpr std::int64_t kDefaultQueuePackets = 64;

struct Backlog {
  std::int64_t packets = 0;
  std::int64_t bytes = 0;
};

// Whether one more packet of `bytes` fits behind the backlog of a link that runs at `rate`.
[[nodiscard]] bool fits(const QueueLimit& limit, const Backlog& backlog, std::int64_t bytes,
                        const Rate& rate);

}  // namespace pliant::lab
