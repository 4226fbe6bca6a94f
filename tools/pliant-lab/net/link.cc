// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/net/link.h"

#include <fmt/format.h>

namespace pliant::lab {
namespace {

template <typename T>
void assign(const std::optional<T>& from, T& to) {
  if (from) to = *from;
}

void apply(const DirectionChange& change, Direction& direction) {
  assign(change.rate, direction.rate);
  assign(change.delay, direction.travel.delay);
  assign(change.jitter, direction.travel.jitter);
  assign(change.loss, direction.travel.loss);
  assign(change.reorder, direction.travel.reorder);
  assign(change.queue, direction.queue);
  assign(change.blackhole, direction.blackhole);
}

std::string rate_text(const Rate& rate) {
  if (rate.trace) return fmt::format("trace of {} on average", to_string(rate.mean()));
  return rate.unlimited() ? "unlimited" : to_string(rate.limit);
}

}  // namespace

void apply(const LinkChange& change, Link& link) {
  apply(change.out, link.out);
  apply(change.in, link.in);
  assign(change.down, link.down);
}

std::string to_string(const QueueLimit& limit) {
  switch (limit.unit) {
    case QueueLimit::Unit::kPackets:
      return fmt::format("{:.0f} packets", limit.amount);
    case QueueLimit::Unit::kBytes:
      return to_string(Bytes{static_cast<std::int64_t>(limit.amount)});
    case QueueLimit::Unit::kTime:
      return to_string(Seconds{limit.amount});
    case QueueLimit::Unit::kDefault:
      break;
  }
  return "default";
}

std::string to_string(const Direction& direction) {
  const Travel& travel = direction.travel;
  std::string text = rate_text(direction.rate) + ", " + to_string(travel.delay);
  if (travel.jitter.value > 0) text += ", jitter " + to_string(travel.jitter);
  if (travel.loss > 0) text += ", loss " + percent(travel.loss);
  if (travel.reorder > 0) text += ", reorder " + percent(travel.reorder);
  if (direction.queue.unit != QueueLimit::Unit::kDefault)
    text += ", queue " + to_string(direction.queue);
  if (direction.blackhole) text += ", blackhole";
  return text;
}

std::string to_string(const Link& link) {
  const std::string out = to_string(link.out);
  const std::string in = to_string(link.in);
  return (out == in ? out : fmt::format("out {}; in {}", out, in)) + (link.down ? ", down" : "");
}

}  // namespace pliant::lab
