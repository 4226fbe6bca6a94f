// SPDX-License-Identifier: MIT
#include "pliant/control/decision.h"

#include <fmt/format.h>

namespace pliant::control {
namespace {

std::string line_of(const model::Prediction& prediction) {
  return fmt::format("  {} a step, efficiency {:.3g}, {} a step sent, {}\n",
                     pliant::to_string(prediction.step), prediction.efficiency,
                     pliant::to_string(Bytes{static_cast<std::int64_t>(prediction.bytes)}),
                     to_string(prediction.plan));
}

}  // namespace

std::string to_string(const Decision& decision, bool details) {
  std::string text =
      fmt::format("step {}, epoch {}: {}{}{}\n  reason: {}\n", decision.step, decision.epoch,
                  to_string(decision.choice), decision.changed ? " (new)" : "",
                  decision.trial ? " (trial)" : "", decision.reason);
  if (!details || decision.front.empty()) return text;
  text += fmt::format("  given {}; the front of {} plans:\n", decision.inputs, decision.candidates);
  for (const auto& prediction : decision.front) text += line_of(prediction);
  return text;
}

}  // namespace pliant::control
