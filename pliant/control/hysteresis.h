// SPDX-License-Identifier: MIT
// Hysteresis: keeps the plan in force until another one is clearly and lastingly better. It decides
// whether a plan may replace the one in force.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pliant/control/options.h"

namespace pliant::control {

struct Hysteresis {
  std::int64_t switched = -1;                 // step of the last switch; -1 = none yet
  std::int64_t unsettled_until = -1;          // after a change of the network: until this step,
  int unsettled_for = 0;                      // and for as many more decisions
  std::optional<plan::Plan> challenger = {};  // a better plan that waits for confirmations
  int confirmed = 0;                          // decisions in a row at which there was one, or 0 if
                                              // it may be worse, as far as is known

  // At the beginning of every decision.
  void begin(bool network_changed, const Options& options, std::int64_t step);

  // The network changed a short time ago: switches are immediate.
  [[nodiscard]] bool unsettled(std::int64_t step) const;
  // The last switch is long enough ago for another one.
  [[nodiscard]] bool rested(const Options& options, std::int64_t step) const;

  struct Challenge {
    const plan::Plan& plan;
    double advantage;            // how many times better it is than the plan in force
    std::string_view better;     // the word for it: "faster"
    bool warm_up_ended = false;  // then hysteresis does not protect the plan in force
    double at_least = 2;         // the advantage if inputs are off by three times their uncertainty
    std::string_view doubt = {};  // why so little is known, for people
  };
  // Why the plan may not replace the one in force now, as one sentence; nullopt if it may.
  [[nodiscard]] std::optional<std::string> objection(const Challenge& challenge,
                                                     const Options& options, std::int64_t step);

  // Whether the challenger waits for more to be known, not for confirmations.
  [[nodiscard]] bool doubtful() const { return challenger && confirmed == 0; }

  void note_switch(std::int64_t step);
  void drop_challenger();
  bool operator==(const Hysteresis&) const = default;
};

}  // namespace pliant::control
