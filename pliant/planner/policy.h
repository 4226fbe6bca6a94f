// SPDX-License-Identifier: MIT
// Which plan is in force at which step. Every rank asks its own copy, and all get the same answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/agree/record.h"
#include "pliant/common/log.h"
#include "pliant/control/decide.h"
#include "pliant/plan/link.h"
#include "pliant/plan/plan.h"

namespace pliant::planner {

using agree::Record;
using control::WarmUp;

struct Choice {
  plan::Plan plan;
  std::string reason;      // one sentence
  Seconds predicted = {};  // exchange time; 0: not predicted
  std::shared_ptr<const control::Decision> decision =
      nullptr;  // how it came about; none: it is fixed
};

// What came of a step's exchanges, the same on all ranks.
struct Result {
  double updated_fraction = 1;
  double gain = 1;  // of the average over ranks
};

// What is expected of a step under a plan.
struct Outlook {
  std::optional<plan::Link> link = {};  // as estimated now
  std::optional<Seconds> wire = {};     // of all exchanges of a step that exchanges
  std::optional<Seconds> dense_step =
      {};  // a whole step, if it exchanged dense gradients in the plainest way
};

class Policy {
 public:
  virtual ~Policy() = default;
  // For each step (updates: exchange), in order; asked again about the last one, it says the same.
  [[nodiscard]] virtual Choice choose(std::uint64_t step) = 0;
  // What all ranks said of an earlier step.
  virtual void take_in(std::span<const Record> records) = 0;
  // What all ranks know alike without being told: how units are cut now, and what share of the last
  // result was not zero.
  virtual void note_units(const std::vector<std::size_t>& lengths) { (void)lengths; }
  // What really ran in a round, where that was not the choice: the way from one kind to the other.
  virtual void note_ran(std::uint64_t round, const plan::Plan& plan) { (void)round, (void)plan; }
  virtual void note_result(const plan::Plan& plan, const Result& result) {
    (void)plan, (void)result;
  }
  virtual void note_buffers(bool at_home) {
    (void)at_home;
  }  // they travel beside updates, or they do not, from now on
  // Nothing, where nothing is known. Never changes what is chosen.
  [[nodiscard]] virtual Outlook outlook(const plan::Plan& plan) { return (void)plan, Outlook{}; }
  // The network is this one, whatever was measured; nothing: measure again. A policy that looks at
  // no network does not care.
  virtual void tell(const std::optional<plan::Link>& link) { (void)link; }
  // For a checkpoint.
  [[nodiscard]] virtual std::string to_text() const { return {}; }
  virtual void restore(std::string_view text) { (void)text; }
};

// The pinned plan from the first step to the last, after a warm-up if there is one. An onlooker, if
// there is one, measures what goes by and gives the outlook; nobody asks it for a plan.
class FixedPolicy final : public Policy {
 public:
  FixedPolicy(const plan::Pins& pins, WarmUp warm_up, std::int64_t warm_up_steps,
              std::unique_ptr<Policy> onlooker = nullptr);

  [[nodiscard]] Choice choose(std::uint64_t step) override;
  void take_in(std::span<const Record> records) override;
  void note_units(const std::vector<std::size_t>& lengths) override;
  void note_ran(std::uint64_t round, const plan::Plan& plan) override;
  void note_result(const plan::Plan& plan, const Result& result) override;
  void note_buffers(bool at_home) override;
  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override;

 private:
  plan::Plan plan_;
  std::string reason_;
  WarmUp warm_up_;
  std::uint64_t warm_up_steps_;
  std::unique_ptr<Policy> onlooker_;
};

// Whether the text leaves nothing open that matters: kind, scheme and density (plan::parse_plan).
// Then nothing is chosen, and two runs are the same bit for bit.
[[nodiscard]] bool is_complete(const plan::Pins& pins);

}  // namespace pliant::planner
