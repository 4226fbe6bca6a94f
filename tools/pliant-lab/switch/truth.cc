// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/switch/truth.h"

#include <algorithm>
#include <chrono>

namespace pliant::lab {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Direction& direction) {
  const Travel& travel = direction.travel;
  return {{"rate_bits_per_second",
           direction.rate.unlimited() ? Json() : Json(bits_per_second(direction.rate.mean()))},
          {"trace", direction.rate.trace != nullptr},
          {"delay_s", travel.delay.value},
          {"jitter_s", travel.jitter.value},
          {"loss", travel.loss},
          {"reorder", travel.reorder},
          {"queue", to_string(direction.queue)},
          {"blackhole", direction.blackhole}};
}

double mean_wait(const Counters& now, const Counters& before) {
  const auto packets = static_cast<double>(std::max<std::int64_t>(1, now.packets - before.packets));
  return to_seconds(now.waited - before.waited).value / packets;
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Json to_json(const Link& link) {
  return {{"down", link.down}, {"out", to_json(link.out)}, {"in", to_json(link.in)}};
}

Json to_json(const Counters& now, const Counters& before) {
  return {{"bytes", now.bytes - before.bytes},
          {"packets", now.packets - before.packets},
          {"dropped_queue", now.dropped_queue - before.dropped_queue},
          {"dropped_loss", now.dropped_loss - before.dropped_loss},
          {"dropped_down", now.dropped_down - before.dropped_down},
          {"queue_delay_mean_s", mean_wait(now, before)},
          {"queue_delay_max_s", to_seconds(now.waited_longest).value}};
}

void Lateness::add(Time late) {
  packets += 1;
  over_1ms += late > std::chrono::milliseconds(1) ? 1 : 0;
  sum += late;
  longest = std::max(longest, late);
}

void Lateness::add(const Lateness& other) {
  packets += other.packets;
  over_1ms += other.over_1ms;
  sum += other.sum;
  longest = std::max(longest, other.longest);
}

Json to_json(const Lateness& lateness) {
  const auto packets = static_cast<double>(std::max<std::int64_t>(1, lateness.packets));
  return {{"packets", lateness.packets},
          {"late_mean_s", to_seconds(lateness.sum).value / packets},
          {"late_max_s", to_seconds(lateness.longest).value},
          {"late_over_1ms", lateness.over_1ms}};
}

void Truth::write(const char* type, Time now, const Json& record) {
  if (!on()) return;
  Json line = {{"type", type}, {"mono", to_seconds(now).value}, {"wall", wall_clock()}};
  line.update(record);
  write_all(file_.get(), line.dump() + "\n", "writing the truth log");
}

}  // namespace pliant::lab
