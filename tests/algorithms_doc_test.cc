// SPDX-License-Identifier: MIT
// The table of messages and bytes in docs/algorithms.md is what the schedules do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "pliant/schedule/catalogue.h"

namespace pliant::schedule {
namespace {

std::vector<std::string> cells(const std::string& row) {
  std::vector<std::string> out;
  std::stringstream stream(row.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    cell.erase(0, cell.find_first_not_of(' '));
    cell.erase(cell.find_last_not_of(' ') + 1);
    out.push_back(cell);
  }
  return out;
}

Collective collective_of(const std::string& name) {
  for (const Collective c : {Collective::kReduceScatter, Collective::kAllGather,
                             Collective::kBroadcast, Collective::kAllReduce}) {
    if (to_string(c) == name) return c;
  }
  throw std::invalid_argument(name);
}

// Of the busiest rank: messages, and blocks in units of all of them (all-gather: in blocks, each
// being one payload).
std::pair<double, double> busiest(const Builder& builder, int size) {
  const Shape shape{.size = size, .segments = 16};
  double messages = 0;
  double share = 0;
  for (const Schedule& schedule : build_all(builder, shape)) {
    double sent = 0;
    double blocks = 0;
    for (const Round& round : schedule) {
      for (const Move& move : round.sends) {
        ++sent;
        blocks += static_cast<double>(move.blocks.size());
      }
    }
    messages = std::max(messages, sent);
    share = std::max(share, builder.collective == Collective::kAllGather
                                ? blocks
                                : blocks / builder.blocks(shape));
  }
  return {messages, share};
}

TEST(AlgorithmsDocument, ItsTableIsWhatTheSchedulesDo) {
  std::ifstream file(PLIANT_DOCS "/algorithms.md");
  ASSERT_TRUE(file);
  int rows = 0;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| stage |")) {
      in_table = true;
      std::getline(file, line);
      continue;
    }
    if (!in_table) continue;
    if (!line.starts_with("|")) break;
    const auto row = cells(line);
    ASSERT_EQ(row.size(), 6U) << line;
    const Builder& builder = find_builder(collective_of(row[0]), row[1]);
    for (const auto& [size, column] : {std::pair{8, 2U}, std::pair{13, 4U}}) {
      const auto [messages, share] = busiest(builder, size);
      EXPECT_EQ(std::stod(row[column]), messages) << line;
      EXPECT_NEAR(std::stod(row[column + 1]), share, 5e-4) << line;
    }
    ++rows;
  }
  // Every builder but the ring reduce-scatter, which no scheme uses by itself.
  EXPECT_EQ(rows, static_cast<int>(builders().size()) - 1);
}

}  // namespace
}  // namespace pliant::schedule
