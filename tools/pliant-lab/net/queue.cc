// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/net/queue.h"

namespace pliant::lab {
namespace {

bool fits_in_time(double seconds, const Backlog& backlog, std::int64_t bytes, const Rate& rate) {
  return static_cast<double>(backlog.bytes + bytes) <= seconds * rate.mean().value;
}

}  // namespace

bool fits(const QueueLimit& limit, const Backlog& backlog, std::int64_t bytes, const Rate& rate) {
  switch (limit.unit) {
    case QueueLimit::Unit::kPackets:
      return static_cast<double>(backlog.packets + 1) <= limit.amount;
    case QueueLimit::Unit::kBytes:
      return static_cast<double>(backlog.bytes + bytes) <= limit.amount;
    case QueueLimit::Unit::kTime:
      return fits_in_time(limit.amount, backlog, bytes, rate);
    case QueueLimit::Unit::kDefault:
      break;
  }
  return backlog.packets + 1 <= kDefaultQueuePackets ||
         fits_in_time(kDefaultQueueSeconds, backlog, bytes, rate);
}

}  // namespace pliant::lab
