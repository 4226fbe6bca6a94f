// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/net/path.h"

#include <algorithm>

namespace pliant::lab {

std::optional<Time> Path::travel_time(Time departure, const Travel& travel) {
  if (lost(travel.loss)) return std::nullopt;
  if (overtakes(travel.reorder)) return Time(0);
  last_arrival_ = std::max(last_arrival_, departure + jittered(travel));
  return last_arrival_ - departure;
}

Time Path::jittered(const Travel& travel) {
  if (travel.jitter.value <= 0) return to_time(travel.delay);
  const double delay = travel.delay.value + travel.jitter.value * (2 * random_.uniform() - 1);
  return to_time({std::max(0.0, delay)});
}

}  // namespace pliant::lab
