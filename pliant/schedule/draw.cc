// SPDX-License-Identifier: MIT
#include "pliant/schedule/draw.h"

#include <fmt/format.h>

#include <algorithm>

namespace pliant::schedule {
namespace {

// 0,1,2,5 -> "[0-2,5]"
std::string draw_blocks(const std::vector<int>& blocks) {
  std::string text;
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t last = i;
    while (last + 1 < blocks.size() && blocks[last + 1] == blocks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text +=
        last == i ? fmt::format("{}", blocks[i]) : fmt::format("{}-{}", blocks[i], blocks[last]);
    i = last + 1;
  }
  return "[" + text + "]";
}

std::string draw_round(const Round& round) {
  std::string cell;
  for (const Move& move : round.sends)
    cell += fmt::format("{}>{} {}", cell.empty() ? "" : "  ", move.peer, draw_blocks(move.blocks));
  const char* plus = round.on_arrival == OnArrival::kCombine ? "+" : "";
  for (const Move& move : round.receives) {
    cell += fmt::format("{}<{} {}{}", cell.empty() ? "" : "  ", move.peer, plus,
                        draw_blocks(move.blocks));
  }
  return cell.empty() ? "." : cell;
}

}  // namespace

std::string draw(std::span<const Schedule> ranks) {
  std::vector<std::vector<std::string>> columns;
  const std::size_t rounds = ranks.empty() ? 0 : ranks.front().size();
  columns.push_back({"round"});
  for (std::size_t r = 0; r < rounds; ++r) columns.back().push_back(fmt::format("{}", r + 1));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    columns.push_back({fmt::format("rank {}", rank)});
    for (const Round& round : ranks[rank]) columns.back().push_back(draw_round(round));
  }
  std::string text;
  for (std::size_t row = 0; row <= rounds; ++row) {
    std::string line;
    for (const auto& column : columns) {
      const auto width = std::ranges::max(column, {}, &std::string::size).size();
      line += fmt::format("{:<{}}   ", column[row], width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace pliant::schedule
