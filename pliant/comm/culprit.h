// SPDX-License-Identifier: MIT
// Search for the rank that all others wait for. A rank sees only that its neighbour does not
// answer. A rank that gives up writes down whom it waited for. Followed from one to the next, these
// lines lead to a rank that has written none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pliant/comm/errors.h"

namespace pliant::comm {

// The line that a rank writes when it gives up, for people and for parse_wait().
struct Wait {
  int rank = -1;
  int peer = -1;  // -1 = all ranks, in the backend's own all-reduce
  Place place;
};
[[nodiscard]] std::string to_string(
    const Wait& wait);  // "rank 2 waits for rank 1, round 3 of 6, plan version 17"
[[nodiscard]] std::optional<Wait> parse_wait(const std::string& text);

struct Findings {
  std::vector<Wait>
      trail;  // the waits that were followed, nearest first; the asker's own is the first
  std::vector<int> silent;  // the ranks without a line that they lead to, ascending
};

// Follows the waits from the asker on, each rank once. Without a silent rank the waits form a
// circle, or the asker wrote no line.
[[nodiscard]] Findings follow(std::span<const Wait> waits, int asker, int size);

// The failure with the findings added: the culprit, if it is one rank, and the trail as advice.
[[nodiscard]] Failure with_findings(Failure failure, const Findings& findings);

// The failure of a rank that could not ask the others.
[[nodiscard]] Failure without_findings(Failure failure, const std::string& why);

}  // namespace pliant::comm
