// SPDX-License-Identifier: MIT
// Parts of an engine, shared by its three sides (gradients, updates, log).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pliant/engine/common_share.h"
#include "pliant/engine/engine.h"
#include "pliant/engine/gradient_exchange.h"
#include "pliant/engine/options.h"
#include "pliant/engine/rounds.h"
#include "pliant/engine/services.h"
#include "pliant/engine/update_exchange.h"
#include "pliant/plan/costs.h"

namespace pliant::engine {

struct Parts {
  Parts(Communicators communicators, std::vector<Parameter> parameter_list, Options user_options,
        std::vector<Parameter> buffer_list);

  // Throws the failure if there was one, or ContractError if the engine is closed.
  void check_open() const;
  void set_plan(const plan::Pins& pins);
  // The kind of the next step. Waits for a step that changes it: if that was void, the residual is
  // still of the old kind, which stays.
  [[nodiscard]] plan::Kind next_kind();
  // Made when a plan first asks for it: it needs memory.
  UpdateExchange& make_updates();

  const std::vector<Parameter> parameters;
  const std::vector<Parameter> buffers;
  const Options options;
  Services services;
  plan::CostTable costs;  // of coding, on the slowest rank
  Rounds rounds;
  GradientExchange gradients;
  CommonShare common_share;
  std::unique_ptr<UpdateExchange> updates;
  std::optional<plan::Link> network;         // set by the user
  plan::Kind kind = plan::Kind::kGradients;  // of the next step: next_kind()
  bool leaves_gradients = false;      // the last step of gradients that was opened changes the kind
  struct {                            // updates
    std::uint64_t completed = 0;      // by this rank's optimizer
    std::uint64_t next_exchange = 0;  // the step that sends next
  } own_steps;
  std::uint32_t rates = 0;  // a hash of this rank's learning rates
  bool closed = false;
  struct {  // entries of the largest part
    std::size_t parameters = 0;
    std::size_t buffers = 0;
  } most_exchanged;

 private:
  void compare(const Communicators& communicators);
  void make_lanes(Communicators communicators);
};

}  // namespace pliant::engine
