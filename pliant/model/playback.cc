// SPDX-License-Identifier: MIT
#include "pliant/model/playback.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pliant::model {

// Groups leave in the order of readiness, one at a time on the wire. With one lane the coding of a
// group delays the next group too; with two or more, the next group is prepared while this one
// travels and lands.
Seconds play_gradients(std::span<const PricedExchange> exchanges, Seconds compute, int lanes) {
  if (lanes == 0) {
    Seconds step = compute;
    for (const PricedExchange& exchange : exchanges) step += exchange.total();
    return step;
  }
  Seconds wire_free{};
  Seconds lane_free{};  // one lane: when the whole exchange is done; more: when the processor that
                        // codes is free
  Seconds end = compute;
  for (const PricedExchange& exchange : exchanges) {
    const Seconds departed = std::max(exchange.ready, lane_free) + exchange.codec.depart;
    const Seconds arrived = std::max(departed, wire_free) + exchange.travel();
    const Seconds landed = arrived + exchange.codec.land;
    wire_free = arrived;
    lane_free = lanes == 1 ? landed : departed;
    end = std::max(end, landed);
  }
  return end;
}

// Every H steps one exchange leaves after the optimizer, and lands d steps later. The training
// thread computes, departs and lands; a lane travels. Exchanges take turns on the wire, whatever
// the number of lanes. The first exchanges are played and not counted; the mean is over those
// after.
Seconds play_updates(const PricedExchange& exchange, Seconds compute, int lanes,
                     const Rhythm& rhythm) {
  const auto [every, late, drift] = rhythm;
  if (late == 0 || lanes == 0) return compute + exchange.total() / every;
  const Seconds travel = exchange.travel() + drift * compute;
  if (late <= every) {  // it lands before the next one leaves, so nothing piles up
    const Seconds exposed = std::max(travel - late * compute, Seconds{});
    return compute + (exchange.codec.depart + exposed + exchange.codec.land) / every;
  }
  const int in_flight = (late + every - 1) / every;
  const int warm = 4 * in_flight;
  const int measured = 8 * in_flight;
  std::vector<double> arrivals(static_cast<std::size_t>(warm + measured));  // of exchange e
  double now = 0;
  double wire_free = 0;
  double start = 0;
  std::int64_t landed = 0;
  for (int e = 0; e < warm + measured; ++e) {
    if (e == warm) start = now;
    // The steps up to the one that sends exchange e, landing on the way what is due.
    for (int s = 1; s <= every; ++s) {
      now += compute.value;
      const std::int64_t step = static_cast<std::int64_t>(e) * every + s;
      while (landed < e && (landed + 1) * every + late <= step) {
        now = std::max(now, arrivals[static_cast<std::size_t>(landed)]) + exchange.codec.land.value;
        ++landed;
      }
    }
    now += exchange.codec.depart.value;
    wire_free = std::max(now, wire_free) + travel.value;
    arrivals[static_cast<std::size_t>(e)] = wire_free;
  }
  return {(now - start) / (static_cast<double>(measured) * every)};
}

}  // namespace pliant::model
