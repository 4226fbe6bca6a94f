// SPDX-License-Identifier: MIT
// docs/plans.md is run: its examples parse, its errors are real, its table of counts is what
// candidates() gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "pliant/common/errors.h"
#include "pliant/plan/candidates.h"
#include "pliant/plan/density.h"

namespace pliant::plan {
namespace {

const std::vector<std::string>& lines() {
  static const std::vector<std::string> all = [] {
    std::ifstream file(PLIANT_DOCS "/plans.md");
    std::vector<std::string> read;
    for (std::string line; std::getline(file, line);) read.push_back(line);
    return read;
  }();
  return all;
}

// The lines of the fenced block opened by "```name".
std::vector<std::string> block(const std::string& name) {
  const auto open = std::ranges::find(lines(), "```" + name);
  const auto begin = open == lines().end() ? open : open + 1;
  return {begin, std::find(begin, lines().end(), "```")};
}

// The rows of the table whose header row starts with "| name |", as cells without spaces around
// them.
std::vector<std::vector<std::string>> table(const std::string& name) {
  auto row = std::ranges::find_if(
      lines(), [&](const std::string& line) { return line.starts_with("| " + name + " |"); });
  std::vector<std::vector<std::string>> rows;
  if (row == lines().end()) return rows;
  for (row += 2; row != lines().end() && row->starts_with("|"); ++row) {
    std::vector<std::string> cells;
    std::istringstream text(row->substr(1));
    for (std::string cell; std::getline(text, cell, '|');) {
      const std::size_t first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos
                          ? ""
                          : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    }
    rows.push_back(cells);
  }
  return rows;
}

TEST(PlansDocument, ItsPlansAreRead) {
  const auto plans = block("plans");
  EXPECT_GE(plans.size(), 6U);
  for (const std::string& text : plans) EXPECT_EQ(to_string(parse_plan(text)), text);
  const auto pins = block("pins");
  EXPECT_GE(pins.size(), 6U);
  for (const std::string& text : pins) EXPECT_EQ(to_string(parse_pins(text)), text);
}

// The block is a series of errors; the second line of each is the text that causes it.
TEST(PlansDocument, ItsErrorsAreReal) {
  const auto errors = block("errors");
  ASSERT_GE(errors.size(), 6U);
  ASSERT_EQ(errors.size() % 3, 0U);
  for (std::size_t i = 0; i < errors.size(); i += 3) {
    try {
      (void)parse_pins(errors[i + 1].substr(2));
      ADD_FAILURE() << errors[i + 1] << " is accepted";
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()), errors[i] + "\n" + errors[i + 1] + "\n" + errors[i + 2]);
    }
  }
}

TEST(PlansDocument, ItsWordsAreAllTheWordsThereAre) {
  std::vector<std::string> documented;
  for (const auto& row : table("key")) {
    const std::string key = row[0].substr(1, row[0].size() - 2);  // in back-quotes
    std::istringstream words(row[1]);
    for (std::string word; std::getline(words, word, ',');) {
      std::erase_if(word, [](char c) { return c == ' ' || c == '`'; });
      documented.push_back(key + word);
    }
  }
  std::vector<std::string> all = {"every=1...1024", "late=0...512", "segments=1...4096",
                                  "density=0.0001%...100%"};
  const auto add = [&](const std::string& key, const auto& values) {
    for (const auto value : values) all.push_back(key + std::string(to_string(value)));
  };
  add("scatter=", kReduceScatters);
  add("gather=", kAllGathers);
  add("bcast=", kBroadcasts);
  add("reduce=", kAllReduces);
  add("values=", kValueCodes);
  add("indices=", kIndexCodes);
  add("fuse=", kFusions);
  std::ranges::sort(documented);
  std::ranges::sort(all);
  EXPECT_EQ(documented, all);
}

TEST(PlansDocument, ItsCountsAreWhatCandidatesGives) {
  const auto rows = table("ranks");
  ASSERT_GE(rows.size(), 6U);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 7U) << "ranks, kind, dense, union, shared, srs, total";
    const auto plans = candidates(std::stoi(row[0]), {.pins = parse_pins(row[1])});
    for (std::size_t i = 0; i < kSchemes.size(); ++i) {
      const auto count = std::ranges::count(plans, kSchemes[i], &Plan::scheme);
      EXPECT_EQ(std::to_string(count), row[2 + i])
          << row[0] << " ranks, " << row[1] << ", " << to_string(kSchemes[i]);
    }
    EXPECT_EQ(std::to_string(plans.size()), row[6]) << row[0] << " ranks, " << row[1];
  }
}

TEST(PlansDocument, ItsDensitiesAreTheNine) {
  std::string sentence;
  for (const double density : kDensities)
    sentence += (sentence.empty() ? "" : ", ") + density_text(density);
  EXPECT_TRUE(std::ranges::any_of(lines(), [&](const std::string& line) {
    return line.find(sentence) != std::string::npos;
  })) << sentence;
}

}  // namespace
}  // namespace pliant::plan
