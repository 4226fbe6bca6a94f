// SPDX-License-Identifier: MIT
#include "pliant/engine/dials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"

namespace pliant::engine {
namespace {

using control::Guards;
using Control = control::Options;
using Efficiency = model::EfficiencyOptions;
using For = Dial::For;

struct Range {
  double least;
  double most = Dial::kNoLimit;
};

// A dial of the number that `field` returns by reference.
template <typename Field>
Dial dial_of(const std::string& name, const std::string& sentence, For who, Range range,
             Field field) {
  using Number = std::remove_cvref_t<decltype(field(std::declval<Options&>()))>;
  return {.name = name,
          .sentence = sentence,
          .who = who,
          .least = range.least,
          .most = range.most,
          .whole = std::is_integral_v<Number>,
          .set = [field](Options& o, double value) { field(o) = static_cast<Number>(value); },
          .value = [field](const Options& o) { return fmt::format("{}", field(o)); }};
}

template <typename Number>
Dial guard(const std::string& name, const std::string& sentence, For who, Range range,
           Number Guards::*number) {
  return dial_of(
      name, sentence, who, range, [number](auto& o) -> auto& { return o.control.guards.*number; });
}

template <typename Number>
Dial control_dial(const std::string& name, const std::string& sentence, For who, Range range,
                  Number Control::*number) {
  return dial_of(
      name, sentence, who, range, [number](auto& o) -> auto& { return o.control.*number; });
}

Dial efficiency_dial(const std::string& name, const std::string& sentence, Range range,
                     double Efficiency::*number) {
  return dial_of(
      name, sentence, For::kExperts,
      range, [number](auto& o) -> auto& { return o.efficiency.*number; });
}

// Sets the exponents of both kinds, with and without Adam.
Dial dial_p() {
  return {.name = "p",
          .sentence =
              "Leans towards speed (0) or accuracy (1): how much a step loses by updating "
              "fewer entries.",
          .least = 0,
          .most = 1,
          .set = [](Options& o, double value) { o.efficiency.turn_all_p(value); },
          .value =
              [](const Options& o) {
                const Efficiency& e = o.efficiency;
                return fmt::format("{} for updates, {} for gradients; with Adam {} and {}",
                                   e.p_updates, e.p_gradients, e.p_updates_adam,
                                   e.p_gradients_adam);
              }};
}

std::vector<Dial> for_users() {
  return {
      dial_p(),
      control_dial("least_worth",
                   "With goal steps: plans whose steps are worth less than this are not taken.",
                   For::kUsers, {0, 1}, &Control::least_worth),
      guard("least_density_updates", "Lowest density that is chosen for updates.", For::kUsers,
            {1e-6, 1}, &Guards::least_density_updates),
      guard("least_density_gradients",
            "Lowest density that is chosen for gradients, for `shared/star` and for long `every`.",
            For::kUsers, {1e-6, 1}, &Guards::least_density_gradients),
      guard("most_every", "Largest `every` that is chosen.", For::kUsers, {1, 1024},
            &Guards::most_every),
      guard("most_late", "Largest `late` that is chosen without Adam.", For::kUsers, {0, 64},
            &Guards::most_late),
      control_dial("warm_up_steps", "Number of first steps that run denser than the chosen plan.",
                   For::kUsers, {0, 1e9}, &Control::warm_up_steps),
      control_dial("better",
                   "A switch needs a plan that is predicted to be this many times faster.",
                   For::kUsers, {1}, &Control::better),
      dial_of(
          "lengthen",
          "Updates with Adam: 1 makes up for shorter steps in full, 0 leaves steps as they are.",
          For::kUsers, {0, 1}, [](auto& o) -> auto& { return o.lengthen; }),
      control_dial("tolerance",
                   "Plans are compared again once a measurement moves by more than this fraction.",
                   For::kUsers, {0}, &Control::tolerance),
  };
}

std::vector<Dial> of_efficiency() {
  return {
      efficiency_dial("p_updates", "The exponent p of updates.", {0, 1}, &Efficiency::p_updates),
      efficiency_dial("p_gradients", "The exponent p of gradients.", {0, 1},
                      &Efficiency::p_gradients),
      efficiency_dial("p_updates_adam", "The exponent p of updates with Adam.", {0, 1},
                      &Efficiency::p_updates_adam),
      efficiency_dial("p_gradients_adam", "The exponent p of gradients with Adam.", {0, 1},
                      &Efficiency::p_gradients_adam),
      efficiency_dial("q_sparse", "Efficiency of union and srs.", {0.01, 1}, &Efficiency::q_sparse),
      efficiency_dial("q_shared", "Efficiency of shared.", {0.01, 1}, &Efficiency::q_shared),
      efficiency_dial("enough", "Updated fraction above which efficiency stays the same.",
                      {1e-6, 1}, &Efficiency::enough),
      efficiency_dial("age_scale", "Age at which efficiency is a half.", {0.1},
                      &Efficiency::age_scale),
      efficiency_dial("age_power", "Steepness of the fall with age.", {0.1, 10},
                      &Efficiency::age_power),
      efficiency_dial("age_scale_adam", "Age at which efficiency is a half with Adam.", {0.1},
                      &Efficiency::age_scale_adam),
      efficiency_dial("age_power_adam", "Steepness of the fall with age with Adam.", {0.1, 10},
                      &Efficiency::age_power_adam),
      efficiency_dial("end_age_scale", "Goal steps: age at which worth is a half.", {0.1},
                      &Efficiency::end_age_scale),
      efficiency_dial("end_age_scale_adam", "Goal steps: age at which worth is a half with Adam.",
                      {0.1}, &Efficiency::end_age_scale_adam),
      efficiency_dial("end_own_adam", "Goal steps: worth of a step of each rank's own Adam.",
                      {0.01, 1}, &Efficiency::end_own_adam),
      efficiency_dial("end_int4_adam", "Goal steps: worth of Adam with gradients in int4.",
                      {0.01, 1}, &Efficiency::end_int4_adam),
      dial_of(
          "drift", "Extra time of a hidden exchange, as a fraction of compute.", For::kExperts,
          {0, 1}, [](auto& o) -> auto& { return o.drift; }),
      dial_of(
          "drag", "Extra time of a step, as a fraction of the exchange time that it hides.",
          For::kExperts, {0, 1}, [](auto& o) -> auto& { return o.drag; }),
  };
}

std::vector<Dial> of_control() {
  const auto expert = [](const std::string& name, const std::string& sentence, Range range,
                         auto number) {
    return control_dial(name, sentence, For::kExperts, range, number);
  };
  return {
      guard("sparse_every", "Smallest `every` that needs the density of gradients.", For::kExperts,
            {1, 1024}, &Guards::sparse_every),
      guard("most_late_adam", "Largest `late` that is chosen with Adam.", For::kExperts, {0, 64},
            &Guards::most_late_adam),
      expert("warm_up_slowdown", "Longest step of warm-up, in steps of the chosen plan.", {1},
             &Control::warm_up_slowdown),
      expert("ramp_start", "Density that follows dense at once.", {1e-6, 1}, &Control::ramp_start),
      expert("ramp_factor", "Largest fall of density at a time.", {1}, &Control::ramp_factor),
      expert("ramp_steps", "Steps between two falls of density.", {0, 1e9}, &Control::ramp_steps),
      expert("better_than_plain", "Least advantage over plain dense all-reduce.", {1},
             &Control::better_than_plain),
      expert("better_at_once", "Advantage that needs no confirmation.", {1},
             &Control::better_at_once),
      expert("confirmations", "Decisions in a row that must agree on a switch.", {1, 1e6},
             &Control::confirmations),
      expert("dwell_steps", "Steps between two switches.", {0, 1e9}, &Control::dwell_steps),
      expert("settling_steps", "Steps after a change of the network without hysteresis.", {0, 1e9},
             &Control::settling_steps),
      expert("settling_exchanges", "Decisions after a change of the network without hysteresis.",
             {0, 1e6}, &Control::settling_exchanges),
      expert("stale_steps", "Age of a timing that calls for a trial.", {1, 1e9},
             &Control::stale_steps),
      expert("trial_period", "Exchanges between two trials.", {1, 1e9}, &Control::trial_period),
      expert("trial_slowdown", "Largest slowdown of a trial.", {1}, &Control::trial_slowdown),
      expert("repay_steps", "Steps within which a change of kind must repay its cost.", {0, 1e9},
             &Control::repay_steps),
  };
}

}  // namespace

std::string Dial::range() const {
  return most == kNoLimit ? fmt::format("{:g} or more", least)
                          : fmt::format("{:g} to {:g}", least, most);
}

const std::vector<Dial>& dials() {
  static const std::vector<Dial> all = [] {
    std::vector<Dial> made = for_users();
    for (auto part : {of_efficiency(), of_control()})
      std::ranges::move(part, std::back_inserter(made));
    return made;
  }();
  return all;
}

std::vector<std::string> dial_names() {
  std::vector<std::string> names;
  for (const Dial& each : dials()) {
    if (each.who == For::kUsers) names.push_back(each.name);
  }
  return names;
}

const Dial& dial(std::string_view name) {
  const auto found = std::ranges::find(dials(), name, &Dial::name);
  require(found != dials().end(), "there is no dial '{}'", name);
  return *found;
}

void turn_dial(Options& options, std::string_view name, double value) {
  const auto found = std::ranges::find(dials(), name, &Dial::name);
  if (found == dials().end())
    throw InputError(fmt::format("there is no dial '{}'{}", name, suggestion(name, dial_names())));
  const bool fits = std::isfinite(value) && value >= found->least && value <= found->most &&
                    (!found->whole || value == std::floor(value));
  if (!fits) {
    throw InputError(fmt::format("dial {}={:g}: allowed is {}{}", name, value, found->range(),
                                 found->whole ? ", in whole numbers" : ""));
  }
  found->set(options, value);
}

control::Policy parse_policy(std::string_view text) {
  std::vector<std::string> names;
  for (const control::Policy policy : control::kPolicies) {
    if (control::to_string(policy) == text) return policy;
    names.emplace_back(control::to_string(policy));
  }
  throw InputError(fmt::format("there is no policy '{}'{}", text, suggestion(text, names)));
}

control::Goal parse_goal(std::string_view text) {
  for (const control::Goal goal : control::kGoals) {
    if (control::to_string(goal) == text) return goal;
  }
  throw InputError(fmt::format("there is no goal '{}': it is steps or time", text));
}

}  // namespace pliant::engine
