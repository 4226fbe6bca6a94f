// SPDX-License-Identifier: MIT
// Who holds everybody up. In a schedule of many hops a rank sees only that its neighbour stalls. A
// rank that gives up leaves a word about whom it waited for; followed from one to the next, the
// words lead to a rank that has left none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pliant/comm/errors.h"

namespace pliant::comm {

// The word that a rank leaves: one line, for people and for parse_wait().
struct Wait {
  int rank = -1;
  int peer = -1;  // -1: everybody, in the engine's own all-reduce
  Place place;
};
[[nodiscard]] std::string to_string(
    const Wait& wait);  // "rank 2 waits for rank 1, round 3 of 6, plan version 17"
[[nodiscard]] std::optional<Wait> parse_wait(const std::string& text);

struct Findings {
  std::vector<Wait>
      trail;  // the waits that were followed, nearest first; the asker's own is the first
  std::vector<int> silent;  // the ranks without a word that they lead to, ascending
};

// Follows the waits from the asker on, each rank once. No silent rank: they go round in a circle,
// or the asker left no word.
[[nodiscard]] Findings follow(std::span<const Wait> waits, int asker, int size);

// The failure with what was found: the culprit, if it is one rank, and the trail as advice.
[[nodiscard]] Failure with_findings(Failure failure, const Findings& findings);

// The failure of a rank that could not ask the others.
[[nodiscard]] Failure without_findings(Failure failure, const std::string& why);

}  // namespace pliant::comm
