// SPDX-License-Identifier: MIT
#include "pliant/control/hysteresis.h"

#include <fmt/format.h>

#include <algorithm>

#include "pliant/common/units.h"
#include "pliant/plan/plan.h"

namespace pliant::control {

void Hysteresis::begin(bool network_changed, const Options& options, std::int64_t step) {
  unsettled_for = std::max(0, unsettled_for - 1);
  if (!network_changed) return;
  unsettled_until = step + options.settling_steps;
  unsettled_for = options.settling_exchanges;
}

bool Hysteresis::unsettled(std::int64_t step) const {
  return step < unsettled_until || unsettled_for > 0;
}

bool Hysteresis::rested(const Options& options, std::int64_t step) const {
  return switched < 0 || step - switched >= options.dwell_steps;
}

std::optional<std::string> Hysteresis::objection(const Challenge& challenge, const Options& options,
                                                 std::int64_t step) {
  const bool protects = !unsettled(step) && !challenge.warm_up_ended;
  const double least = challenge.warm_up_ended ? 1 : options.better;
  const std::string would_be =
      fmt::format("{} would be {} {}", to_string(challenge.plan),
                  percent(std::max(0.0, challenge.advantage - 1)), challenge.better);
  if (challenge.advantage <= least) {
    drop_challenger();
    return fmt::format("{}; a switch needs more than {}", would_be, percent(least - 1));
  }
  challenger = challenge.plan;
  if (challenge.at_least <= 1) {
    confirmed = 0;
    const std::string worst = challenge.at_least > 0.995
                                  ? "no faster"
                                  : fmt::format("{} slower", percent(1 - challenge.at_least));
    return fmt::format("{}, but it may also be {}: {}", would_be, worst, challenge.doubt);
  }
  ++confirmed;
  if (protects && !rested(options, step))
    return fmt::format("{}, but the last switch was {} steps ago; a switch needs {}", would_be,
                       step - switched, options.dwell_steps);
  const int missing = options.confirmations - confirmed;
  if (protects && challenge.advantage < options.better_at_once && missing > 0)
    return fmt::format("{}; switching after {} more confirmation{}", would_be, missing,
                       missing == 1 ? "" : "s");
  return std::nullopt;
}

void Hysteresis::note_switch(std::int64_t step) {
  switched = step;
  drop_challenger();
}

void Hysteresis::drop_challenger() {
  challenger.reset();
  confirmed = 0;
}

}  // namespace pliant::control
