// SPDX-License-Identifier: MIT
// Planner: records of all ranks in, the plan of the next round out. It joins observe/ (estimates),
// model/ (predictions) and control/ (decisions). Each rank has one. All are given the same bytes,
// so all choose the same plan. A pinned plan is never departed from, but measured and predicted
// like any other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/agree/record.h"
#include "pliant/common/log.h"
#include "pliant/control/options.h"
#include "pliant/control/pinned.h"
#include "pliant/planner/choice.h"
#include "pliant/planner/plan_history.h"
#include "pliant/planner/state.h"

namespace pliant::planner {

// Must be the same on all ranks, except log and front.
struct Setup {
  plan::Pins pins = {};                              // complete pins are the plan
  control::WarmUp warm_up = control::WarmUp::kNone;  // of a pinned plan
  std::int64_t warm_up_steps = 0;                    // of that warm-up
  int ranks = 1;
  int lanes = 1;
  std::size_t buffers = 0;  // entries that travel beside updates, unless buffers are idle
  bool adam = false;
  plan::CostTable costs = {};     // of the slowest rank (agree::slowest_costs)
  control::Options control = {};  // candidates.pins is set from `pins`
  model::EfficiencyOptions efficiency = {};
  double drift = model::kUsualDrift;
  double drag = model::kUsualDrag;
  Log log = {};
  bool front = false;  // now and then Choice::decision has a front even if nothing changed
};

class Planner {
 public:
  // `units`: entries of each unit of gradients, in the order of their exchange.
  Planner(Setup setup, const std::vector<std::size_t>& units);

  // The plan of a round; rounds come in order. Asked again about the last one, it is the same.
  [[nodiscard]] Choice choose(std::uint64_t round);

  // The records of all ranks about an earlier round.
  void take_in(std::span<const agree::Record> records);
  // All ranks know these alike: how gradients are cut, which plan ran in a round if it was not the
  // chosen one, the outcome of a round, and whether buffers stay unchanged and do not travel.
  void set_units(const std::vector<std::size_t>& lengths);
  void note_ran(std::uint64_t round, const plan::Plan& plan);
  void note_result(const plan::Plan& plan, const Result& result);
  void set_buffers_idle(bool idle) { buffers_idle_ = idle; }
  // Plan for this network instead of the measured one; nullopt plans for the measured one again.
  void set_network(const std::optional<plan::Link>& link);

  // Never changes what is chosen.
  [[nodiscard]] Outlook outlook(const plan::Plan& plan);
  // Worth of a step under a plan by the loss at the end of a schedule, whatever the goal
  // (model/efficiency.h).
  [[nodiscard]] double worth(const plan::Plan& plan) const;
  // As measured so far; nullopt before the first timing.
  [[nodiscard]] std::optional<plan::Link> link() const;
  // Everything that is known now about network and training.
  [[nodiscard]] model::Inputs inputs() const;
  [[nodiscard]] std::optional<control::SeenSteps> seen() const;

  // For a checkpoint. Empty for a pinned plan, which ignores what it restores.
  [[nodiscard]] std::string to_text() const;
  void restore(std::string_view text);

 private:
  [[nodiscard]] Choice decide(std::uint64_t round);
  void observe_network(std::span<const agree::Record> records, const PlanHistory::Round& round);
  void observe_compute(std::span<const agree::Record> records, const PlanHistory::Round& round);
  void observe_coding(std::span<const agree::Record> records, const plan::Plan& plan);
  void warn(const std::string& what) const;
  void say_if_worth_little() const;

  Setup setup_;
  std::optional<control::PinnedPlan> pinned_;  // nullopt: plans are chosen
  State state_;
  model::PriceBook book_;
  PlanHistory history_;
  std::optional<Choice> last_;  // of the last round
  bool network_changed_ = false;
  bool buffers_idle_ = false;
  std::optional<plan::Link> network_;  // instead of the measured one
  std::uint64_t front_due_ = 0;        // the next front is due in this round
};

}  // namespace pliant::planner
