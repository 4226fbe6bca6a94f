// SPDX-License-Identifier: MIT
#include "pliant/engine/dials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"

namespace pliant::engine {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::max();

struct Dial {
  std::string name;
  double least;
  double most;
  std::function<void(Options&, double)> turn;
  bool whole = false;
};

// A dial that writes one number of the guard-rails, of control or of efficiency.
template <typename Part, typename Number>
Dial dial(std::string name, Part Options::*part, Number Part::*number, double least,
          double most = kNoLimit) {
  return {
      std::move(name), least, most,
      [=](Options& options, double value) { options.*part.*number = static_cast<Number>(value); },
      std::is_integral_v<Number>};
}

template <typename Number>
Dial guard(std::string name, Number control::Guards::*number, double least,
           double most = kNoLimit) {
  return {std::move(name), least, most,
          [=](Options& options, double value) {
            options.control.guards.*number = static_cast<Number>(value);
          },
          std::is_integral_v<Number>};
}

const std::vector<Dial>& dials() {
  using control::Guards;
  using Control = control::Options;
  using Efficiency = model::EfficiencyOptions;
  static const std::vector<Dial> all = {
      {"p", 0, 1, [](Options& options, double value) { options.efficiency.turn_all_p(value); }},
      dial("p_updates", &Options::efficiency, &Efficiency::p_updates, 0, 1),
      dial("p_gradients", &Options::efficiency, &Efficiency::p_gradients, 0, 1),
      dial("p_updates_adam", &Options::efficiency, &Efficiency::p_updates_adam, 0, 1),
      dial("p_gradients_adam", &Options::efficiency, &Efficiency::p_gradients_adam, 0, 1),
      dial("q_sparse", &Options::efficiency, &Efficiency::q_sparse, 0.01, 1),
      dial("q_shared", &Options::efficiency, &Efficiency::q_shared, 0.01, 1),
      dial("enough", &Options::efficiency, &Efficiency::enough, 1e-6, 1),
      dial("age_scale", &Options::efficiency, &Efficiency::age_scale, 0.1),
      dial("age_power", &Options::efficiency, &Efficiency::age_power, 0.1, 10),
      dial("age_scale_adam", &Options::efficiency, &Efficiency::age_scale_adam, 0.1),
      dial("age_power_adam", &Options::efficiency, &Efficiency::age_power_adam, 0.1, 10),
      {"drift", 0, 1, [](Options& options, double value) { options.drift = value; }},
      {"drag", 0, 1, [](Options& options, double value) { options.drag = value; }},
      {"lengthen", 0, 1, [](Options& options, double value) { options.lengthen = value; }},
      guard("least_density_updates", &Guards::least_density_updates, 1e-6, 1),
      guard("least_density_gradients", &Guards::least_density_gradients, 1e-6, 1),
      guard("most_every", &Guards::most_every, 1, 1024),
      guard("sparse_every", &Guards::sparse_every, 1, 1024),
      guard("most_late", &Guards::most_late, 0, 64),
      guard("most_late_adam", &Guards::most_late_adam, 0, 64),
      dial("warm_up_steps", &Options::control, &Control::warm_up_steps, 0, 1e9),
      dial("warm_up_slowdown", &Options::control, &Control::warm_up_slowdown, 1),
      dial("ramp_start", &Options::control, &Control::ramp_start, 1e-6, 1),
      dial("ramp_factor", &Options::control, &Control::ramp_factor, 1),
      dial("ramp_steps", &Options::control, &Control::ramp_steps, 0, 1e9),
      dial("better", &Options::control, &Control::better, 1),
      dial("better_than_plain", &Options::control, &Control::better_than_plain, 1),
      dial("better_at_once", &Options::control, &Control::better_at_once, 1),
      dial("confirmations", &Options::control, &Control::confirmations, 1, 1e6),
      dial("dwell_steps", &Options::control, &Control::dwell_steps, 0, 1e9),
      dial("settling_steps", &Options::control, &Control::settling_steps, 0, 1e9),
      dial("settling_exchanges", &Options::control, &Control::settling_exchanges, 0, 1e6),
      dial("stale_steps", &Options::control, &Control::stale_steps, 1, 1e9),
      dial("trial_period", &Options::control, &Control::trial_period, 1, 1e9),
      dial("trial_slowdown", &Options::control, &Control::trial_slowdown, 1),
      dial("tolerance", &Options::control, &Control::tolerance, 0),
      dial("repay_steps", &Options::control, &Control::repay_steps, 0, 1e9),
  };
  return all;
}

}  // namespace

void turn_dial(Options& options, std::string_view name, double value) {
  const auto found = std::ranges::find(dials(), name, &Dial::name);
  if (found == dials().end())
    throw InputError(fmt::format("there is no dial '{}'{}", name, suggestion(name, dial_names())));
  const bool fits = std::isfinite(value) && value >= found->least && value <= found->most &&
                    (!found->whole || value == std::floor(value));
  if (!fits) {
    const std::string most = found->most == kNoLimit ? "up" : fmt::format("to {:g}", found->most);
    throw InputError(fmt::format("dial {}={:g}: it goes from {:g} {}{}", name, value, found->least,
                                 most, found->whole ? ", in whole numbers" : ""));
  }
  found->turn(options, value);
}

std::vector<std::string> dial_names() {
  std::vector<std::string> names;
  for (const Dial& each : dials()) names.push_back(each.name);
  return names;
}

control::Policy parse_policy(std::string_view text) {
  std::vector<std::string> names;
  for (const control::Policy policy : control::kPolicies) {
    if (control::to_string(policy) == text) return policy;
    names.emplace_back(control::to_string(policy));
  }
  throw InputError(fmt::format("there is no policy '{}'{}", text, suggestion(text, names)));
}

}  // namespace pliant::engine
