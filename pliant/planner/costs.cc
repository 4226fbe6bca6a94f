// SPDX-License-Identifier: MIT
#include "pliant/planner/costs.h"

#include <algorithm>

#include "pliant/agree/handshake.h"

namespace pliant::planner {

plan::CostTable agreed_costs(comm::Communicator& communicator, const plan::CostTable& mine,
                             std::optional<Seconds> deadline) {
  plan::CostTable slowest;
  for (const std::string& text : agree::gather_texts(communicator, plan::to_text(mine), deadline)) {
    const plan::CostTable table = plan::parse_cost_table(text);
    for (std::size_t o = 0; o < plan::kOperationNames.size(); ++o) {
      const auto operation = static_cast<plan::Operation>(o);
      const auto cost = table.find(operation);
      if (!cost) continue;
      const plan::Cost known = slowest.find(operation).value_or(plan::Cost{});
      slowest.set(operation,
                  {.ns_per_element = std::max(known.ns_per_element, cost->ns_per_element),
                   .ns_per_entry = std::max(known.ns_per_entry, cost->ns_per_entry)});
    }
  }
  return slowest;
}

}  // namespace pliant::planner
