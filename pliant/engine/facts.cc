// SPDX-License-Identifier: MIT
#include "pliant/engine/facts.h"

#include <fmt/format.h>

#include "pliant/common/version.h"

namespace pliant::engine {
namespace {

// Every number that steers decisions, as one fact.
std::string steering(const Options& options) {
  const control::Options& c = options.control;
  const model::EfficiencyOptions& e = options.efficiency;
  return fmt::format(
      "{} {} {} {} {} {} {} | {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} | {} {} {} {} {} {} "
      "{} {} {} {} {} {} {} {} {}",
      c.guards.least_density_updates, c.guards.least_density_gradients, c.guards.sparse_every,
      c.guards.most_every, c.guards.most_late, c.guards.most_late_adam, options.shared,
      c.warm_up_steps, c.warm_up_slowdown, c.ramp_start, c.ramp_factor, c.ramp_steps, c.better,
      c.confirmations, c.better_at_once, c.dwell_steps, c.settling_steps, c.settling_exchanges,
      c.better_than_plain, c.repay_steps, c.stale_steps, c.trial_period, c.tolerance, e.p_updates,
      e.p_gradients, e.p_updates_adam, e.p_gradients_adam, e.q_sparse, e.q_shared, e.enough,
      e.age_scale, e.age_power, e.age_scale_adam, e.age_power_adam, c.trial_slowdown, options.drift,
      options.drag, options.lengthen);
}

}  // namespace

agree::Facts facts_of(const std::vector<Parameter>& parameters,
                      const std::vector<Parameter>& buffers, const Options& options) {
  agree::Facts facts = {{"the version of pliant", std::string(version())}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  facts.insert(
      facts.end(),
      {{"plan", to_string(options.pins)},
       {"whether the optimizer is attached", options.updates ? "yes" : "no"},
       {"check_every", std::to_string(options.check_every)},
       {"warm_up", fmt::format("{} {}", static_cast<int>(options.warm_up), options.warm_up_steps)},
       {"policy", std::string(to_string(options.control.policy))},
       {"the kind of optimizer", options.adam ? "Adam-like" : "SGD-like"},
       {"the numbers that steer decisions", steering(options)},
       {"clip_norm", fmt::format("{}", options.clip_norm)},
       {"the number of parameters", std::to_string(parameters.size())}});
  const auto tell = [&facts](std::string_view what, const std::vector<Parameter>& tensors) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      facts.emplace_back(fmt::format("{} {}", what, t),
                         fmt::format("{} ({} entries{}{})", tensors[t].name, tensors[t].size,
                                     tensors[t].shape.empty() ? "" : ", ", tensors[t].shape));
    }
  };
  tell("parameter", parameters);
  facts.emplace_back("the number of buffers", std::to_string(buffers.size()));
  tell("buffer", buffers);
  return facts;
}

}  // namespace pliant::engine
