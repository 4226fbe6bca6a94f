// SPDX-License-Identifier: MIT
// plan=auto: what the ranks' records show of the network and of themselves becomes the next plan.
// Glue only: observe/ makes the estimate, control/ decides; here their inputs are put together from
// numbers that all ranks hold alike.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/control/decide.h"
#include "pliant/observe/level.h"
#include "pliant/observe/network.h"
#include "pliant/planner/policy.h"

namespace pliant::planner {

class AdaptivePolicy final : public Policy {
 public:
  // All of these must be the same on all ranks; `costs` too (agree::slowest_costs).
  struct Setup {
    int ranks = 1;
    int lanes = 1;
    std::size_t buffers = 0;  // entries that travel beside updates, unless they are at home
    bool adam = false;
    plan::CostTable costs = {};
    control::Options control = {};
    model::EfficiencyOptions efficiency = {};
    double drift = model::kUsualDrift;
    double drag = model::kUsualDrag;
    Log log = {};
    bool front = false;  // Choice::decision has it now and then, even if nothing changed; need not
                         // be the same
  };
  AdaptivePolicy(Setup setup, const std::vector<std::size_t>& units);

  [[nodiscard]] Choice choose(std::uint64_t round) override;
  void take_in(std::span<const Record> records) override;
  void note_units(const std::vector<std::size_t>& lengths) override;
  void note_ran(std::uint64_t round, const plan::Plan& plan) override;
  void note_result(const plan::Plan& plan, const Result& result) override;
  void note_buffers(bool at_home) override { buffers_at_home_ = at_home; }

  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override;
  void tell(const std::optional<plan::Link>& link) override;

  [[nodiscard]] std::string to_text() const override;
  void restore(std::string_view text) override;

  // What is known now of network and ranks.
  [[nodiscard]] model::Inputs inputs() const;

 private:
  struct Ran {
    std::uint64_t round;
    std::int64_t step;  // of training
    plan::Plan plan;
  };
  void add_buckets(model::Inputs& inputs) const;
  void time(std::span<const Record> records, const Ran& previous);
  void time_coding(std::span<const Record> records, const plan::Plan& plan);
  void complain(const std::string& what) const;

  Setup setup_;
  std::vector<std::size_t> units_;  // entries of each, in the order of their exchange
  observe::Network network_;
  control::State state_;
  model::PriceBook book_;
  observe::Level compute_;             // of a step
  std::vector<observe::Level> leads_;  // by unit but for the last: how long before it each is ready
  observe::Level coding_;              // over what it should take
  observe::Level overlap_;             // of the ranks' selections
  observe::Level gain_;                // of the last exchanges, at the density that they had
  double gain_density_ = 1;
  bool changed_ = false;
  bool buffers_at_home_ = false;
  std::optional<plan::Link> told_;  // instead of what is measured
  std::uint64_t front_due_ =
      0;                    // the round from which on a decision that changes nothing has its front
  std::int64_t steps_ = 0;  // of training: an exchange of updates is worth `every` of them
  std::deque<Ran> ran_;     // rounds whose records are still to come, and the one before them
  std::optional<Choice> last_;
};

}  // namespace pliant::planner
