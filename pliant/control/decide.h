// SPDX-License-Identifier: MIT
// From what is known now to the plan in force next. decide() is called once for every exchange
// whose records are in; mostly nothing has moved and it says so at once. Otherwise all candidates
// are predicted, the policy names its goal, and the plan in force takes the step towards it that
// warm-up, ramp and hysteresis allow. No clock, no I/O: ranks that call it with the same bits get
// the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/control/options.h"
#include "pliant/model/predict.h"

namespace pliant::control {

struct Inputs {
  std::int64_t step = 0;     // that the plan will be in force from, for ramp and warm-up
  model::Inputs model = {};  // what predict needs
  bool changed = false;      // the network is another one since the last call
  std::array<std::int64_t, plan::kCorrections> last_seen =
      never_seen();    // step of each correction's last timing; -1: never
  bool front = false;  // is wanted of every evaluation; changes nothing else

  static constexpr std::array<std::int64_t, plan::kCorrections> never_seen() {
    std::array<std::int64_t, plan::kCorrections> never{};
    never.fill(-1);
    return never;
  }
};

// What a decision leaves for the next one. Start with State{}; a checkpoint carries its text.
struct State {
  std::uint32_t epoch = 0;  // counts decisions, changed or not
  std::optional<plan::Plan> in_force = {};
  std::optional<plan::Plan> goal = {};  // what the policy wants once warm-up and ramp are over
  std::int64_t switched = -1;           // step of the last switch
  std::int64_t sparser = -1;            // step at which density last went down
  std::int64_t denser = -1;             // step at which it last went up
  double before_denser = 1;             // and from where
  std::int64_t unsettled_until = -1;    // after a change of the network: this step,
  int unsettled_for = 0;                // and as many decisions more
  std::optional<plan::Plan> challenger = {};
  int confirmed = 0;  // decisions in a row at which the challenger was better
  std::optional<plan::Plan> after_trial = {};
  std::int64_t next_trial = 0;     // no trial before this step
  std::vector<double> marks = {};  // inputs at the last evaluation
  std::int64_t evaluated = -1;     // its step
  bool operator==(const State&) const = default;
};

struct Decision {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  std::uint64_t inputs_digest =
      0;                    // of everything that went in: ranks that decided alike have the same
  std::string inputs = {};  // for people
  bool evaluated = false;   // false: nothing had moved
  int candidates = 0;
  std::vector<model::Prediction> front =
      {};  // of what was evaluated, if the plan changed or it was asked for
  std::optional<model::Prediction> chosen = {};
  plan::Plan choice = {};
  bool changed = false;
  bool trial = false;       // for one exchange only
  std::string reason = {};  // one sentence
};

// The plan in force becomes `decision.choice`. If the inputs cannot be predicted from
// (ContractError of the model) the plan in force stays and the reason says why; the plainest plan
// that the pins allow, if there was none.
[[nodiscard]] Decision decide(const Inputs& inputs, const Options& options, State& state,
                              model::PriceBook& book);

// One line for the choice and one for the reason; with `details` the front too, a line each.
[[nodiscard]] std::string to_string(const Decision& decision, bool details = false);

// Lines of "key value". parse_state throws InputError that names the culprit.
[[nodiscard]] std::string to_text(const State& state);
[[nodiscard]] State parse_state(std::string_view text);

}  // namespace pliant::control
