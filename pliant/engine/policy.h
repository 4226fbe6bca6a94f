// SPDX-License-Identifier: MIT
// Which plan is in force at which step. Every rank asks its own copy, and all get the same answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "pliant/engine/options.h"
#include "pliant/engine/record.h"
#include "pliant/plan/plan.h"

namespace pliant::engine {

struct Choice {
  plan::Plan plan;
  std::string reason;  // one sentence
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Once per step (updates: per exchange), in order.
  [[nodiscard]] virtual Choice choose(std::uint64_t step) = 0;
  // What all ranks said of an earlier step.
  virtual void take_in(std::span<const Record> records) = 0;
};

// The pinned plan from the first step to the last, after a warm-up if there is one.
class FixedPolicy final : public Policy {
 public:
  FixedPolicy(const plan::Pins& pins, WarmUp warm_up, std::int64_t warm_up_steps);

  [[nodiscard]] Choice choose(std::uint64_t step) override;
  void take_in(std::span<const Record> records) override;

 private:
  plan::Plan plan_;
  std::string reason_;
  WarmUp warm_up_;
  std::uint64_t warm_up_steps_;
};

}  // namespace pliant::engine
