// SPDX-License-Identifier: MIT
#include "pliant/plan/costs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "pliant/common/errors.h"

namespace pliant::plan {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

double cost_of(const json& row, const char* field, const std::string& operation) {
  if (!row.contains(field) || !row[field].is_number())
    throw InputError(fmt::format("cost table: {} has no number {}", operation, field));
  const auto cost = row[field].get<double>();
  if (!std::isfinite(cost) || cost < 0)
    throw InputError(fmt::format("cost table: {} of {} is {}, not a time", field, operation, cost));
  return cost;
}

json read(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    throw InputError(fmt::format("cost table: not JSON: {}", error.what()));
  }
}

}  // namespace

std::string to_text(const CostTable& table) {
  json rows = json::array();
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    const auto cost = table.find(static_cast<Operation>(i));
    if (!cost) continue;
    rows.push_back({{"operation", kOperationNames[i]},
                    {"ns_per_element", cost->ns_per_element},
                    {"ns_per_entry", cost->ns_per_entry}});
  }
  return json{{"pliant_costs", kVersion}, {"costs", rows}}.dump(1) + "\n";
}

CostTable parse_cost_table(std::string_view text) {
  const json document = read(text);
  if (!document.is_object() || !document.contains("pliant_costs"))
    throw InputError("cost table: no \"pliant_costs\" version in it");
  if (document["pliant_costs"] != kVersion) {
    throw InputError(fmt::format("cost table: version {}, this program reads {}",
                                 document["pliant_costs"].dump(), kVersion));
  }
  if (!document.contains("costs") || !document["costs"].is_array())
    throw InputError("cost table: no list \"costs\" in it");
  CostTable table;
  for (const json& row : document["costs"]) {
    if (!row.is_object() || !row.contains("operation") || !row["operation"].is_string()) {
      throw InputError(fmt::format("cost table: a row without an operation: {}", row.dump()));
    }
    const auto name = row["operation"].get<std::string>();
    const auto found = std::ranges::find(kOperationNames, name);
    if (found == kOperationNames.end()) continue;
    table.set(static_cast<Operation>(found - kOperationNames.begin()),
              {.ns_per_element = cost_of(row, "ns_per_element", name),
               .ns_per_entry = cost_of(row, "ns_per_entry", name)});
  }
  return table;
}

}  // namespace pliant::plan
