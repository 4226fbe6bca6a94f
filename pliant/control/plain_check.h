// SPDX-License-Identifier: MIT
// PlainCheck: comparison of the plan in force with plain DDP by the steps that both really take.
// Predictions leave out what exchanges cost on busy hosts. So wherever plain DDP could be the
// faster one, a few of its steps are timed, and the plan must be seen to be faster.
#pragma once

#include <cstdint>
#include <optional>

#include "pliant/control/evaluation.h"
#include "pliant/control/inputs.h"

namespace pliant::control {

struct PlainCheck {
  // Rounds that are timed of each of the two. Their medians differ by less than 10 % where single
  // steps vary by 20 %.
  static constexpr int kRounds = 9;

  std::optional<plan::Plan> compared = {};  // while plain steps are timed: the plan before them
  double compared_step = 0;                 // seconds of its steps, as seen
  double plain_step = 0;                    // seconds of plain steps, as last seen; 0: never
  std::int64_t plain_seen = 0;              // the step at which that was
  // Seconds by which an exchange of any plan but plain DDP takes longer than predicted.
  double overhead = 0;
  std::int64_t next = 0;       // no check before this step
  std::int64_t period = 1000;  // steps between two checks; doubles with each

  [[nodiscard]] bool running() const { return compared.has_value(); }
  // Whether the steps seen last are plain ones of a check, or from before the plan in force.
  // To a link that was fitted to other exchanges they look like a change of the network.
  [[nodiscard]] bool looks_like_a_change(const plan::Plan& in_force, const Inputs& inputs) const;
  // Enough was seen of the plan in force for a check, or of plain DDP to end one.
  [[nodiscard]] bool ready(const plan::Plan& in_force, const Inputs& inputs) const;
  // Whether plain DDP may be faster than the plan in force, so that it is worth timing.
  [[nodiscard]] bool worthwhile(const plan::Plan& in_force, const Evaluation& evaluation,
                                const Inputs& inputs) const;
  void begin(const plan::Plan& in_force, const Inputs& inputs);
  // Plain steps were timed. Learns the overhead. Returns whether the plan before was faster.
  [[nodiscard]] bool end(const Evaluation& evaluation, const Inputs& inputs);
  // Plain DDP is in force: remembers how long its steps take.
  void note_plain(const Inputs& inputs);
  // Whether plain steps were seen so lately that none need to be taken for a check.
  [[nodiscard]] bool remembers_plain(const Inputs& inputs) const;
  // As a check, but with the plain steps that are remembered. Returns whether the plan in force is
  // faster than they were.
  [[nodiscard]] bool check_by_memory(const Evaluation& evaluation, const Inputs& inputs);
  // Not now: the next look is some steps away.
  void put_off(const Inputs& inputs);
  // While plain DDP is in force an overhead that was learnt is believed less and less, so that
  // others get another chance.
  void forget_slowly(const Inputs& inputs);
  bool operator==(const PlainCheck&) const = default;

 private:
  [[nodiscard]] bool faster_than_plain(const plan::Plan& plan, double step,
                                       const Evaluation& evaluation, const Inputs& inputs);
};

}  // namespace pliant::control
