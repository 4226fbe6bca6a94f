// SPDX-License-Identifier: MIT
#include "pliant/plan/costs.h"

#include <gtest/gtest.h>

#include "pliant/common/errors.h"

namespace pliant::plan {
namespace {

std::string complaint_about(const std::string& text) {
  try {
    (void)parse_cost_table(text);
    return "none";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(CostTable, IsTheSameAfterItsTextForm) {
  CostTable table;
  table.set(Operation::kCopy, {.ns_per_element = 0.36, .ns_per_entry = 0});
  table.set(Operation::kRiceDecode, {.ns_per_element = 0, .ns_per_entry = 2.5});
  EXPECT_EQ(parse_cost_table(to_text(table)), table);
  EXPECT_FALSE(parse_cost_table(to_text(table)).find(Operation::kAdd).has_value());
  EXPECT_DOUBLE_EQ(table.find(Operation::kRiceDecode)->nanoseconds(1000, 10), 25);
}

TEST(CostTable, PassesOverOperationsOfANewerVersion) {
  EXPECT_EQ(parse_cost_table(R"({"pliant_costs": 1, "costs": [{"operation": "teleport"}]})"),
            CostTable());
}

TEST(CostTable, SaysWhatIsWrongWithATextThatIsNone) {
  EXPECT_EQ(complaint_about("[]"), "cost table: no \"pliant_costs\" version in it");
  EXPECT_EQ(complaint_about(R"({"pliant_costs": 2})"),
            "cost table: version 2, this program reads 1");
  EXPECT_EQ(complaint_about(R"({"pliant_costs": 1})"), "cost table: no list \"costs\" in it");
  EXPECT_EQ(complaint_about(R"({"pliant_costs": 1, "costs": [3]})"),
            "cost table: a row without an operation: 3");
  EXPECT_EQ(complaint_about(
                R"({"pliant_costs": 1, "costs": [{"operation": "add", "ns_per_element": 1}]})"),
            "cost table: add has no number ns_per_entry");
  EXPECT_EQ(
      complaint_about(
          R"({"pliant_costs": 1, "costs": [{"operation": "add", "ns_per_element": -1, "ns_per_entry": 0}]})"),
      "cost table: ns_per_element of add is -1, not a time");
  EXPECT_TRUE(complaint_about("{").starts_with("cost table: not JSON"));
}

}  // namespace
}  // namespace pliant::plan
