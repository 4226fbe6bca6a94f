// SPDX-License-Identifier: MIT
// Timelines as CSV: a header line "t,rate,delay,loss" (any of the link's keys after t), then one
// line per change of all links.
#include <algorithm>
#include <array>
#include <sstream>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "tools/pliant-lab/timeline/timeline.h"

namespace pliant::lab {
namespace {

std::vector<std::string> cells(std::string line) {
  std::erase_if(line, [](char c) { return c == ' ' || c == '\r' || c == '\t'; });
  std::vector<std::string> all;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) all.push_back(cell);
  if (line.ends_with(',')) all.emplace_back();
  return all;
}

void require_header(const std::vector<std::string>& header, const std::string& name) {
  if (header.size() < 2 || header.front() != "t")
    throw InputError(
        fmt::format("{}:1: the first line must name the columns, as in t,rate,delay,loss", name));
  const auto known = link_keys();
  for (auto column = header.begin() + 1; column != header.end(); ++column) {
    if (std::ranges::find(known, *column) == known.end())
      throw InputError(
          fmt::format("{}:1: unknown column '{}'{}", name, *column, suggestion(*column, known)));
  }
}

Phase row(const std::vector<std::string>& header, const std::vector<std::string>& values,
          const std::string& where) {
  if (values.size() != header.size())
    throw InputError(
        fmt::format("{}: {} values for {} columns", where, values.size(), header.size()));
  Phase phase;
  phase.at = parse_duration(values.front(), where + ": t");
  HostChange change;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (!values[i].empty())
      parse_key(change.change, header[i], values[i], where);  // an empty cell changes nothing
  }
  phase.changes.push_back(std::move(change));
  return phase;
}

}  // namespace

Timeline parse_csv(const std::string& text, const std::string& name) {
  std::istringstream stream(text);
  std::string line;
  std::getline(stream, line);
  const auto header = cells(line);
  require_header(header, name);
  Timeline timeline;
  timeline.name = name;
  for (int number = 2; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.starts_with('#')) continue;
    timeline.phases.push_back(row(header, cells(line), fmt::format("{}:{}", name, number)));
  }
  if (timeline.phases.empty()) throw InputError(name + ": no line after the header");
  std::ranges::stable_sort(timeline.phases, {}, [](const Phase& phase) { return *phase.at; });
  return timeline;
}

}  // namespace pliant::lab
