// SPDX-License-Identifier: MIT
// Pins: a plan of which any part may be left open, for Pliant to choose. "auto" leaves all of it
// open. Grammar and examples: docs/plans.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pliant/plan/choices.h"
#include "pliant/plan/codes.h"

namespace pliant::plan {

struct Pins {
  std::optional<Kind> kind = {};
  std::optional<int> every = {};
  std::optional<int> late = {};
  std::optional<Scheme> scheme = {};
  std::optional<Leader> leader = {};
  std::optional<ReduceScatter> scatter = {};
  std::optional<AllGather> gather = {};
  std::optional<Broadcast> bcast = {};
  std::optional<int> segments = {};
  std::optional<AllReduce> reduce = {};
  std::optional<double> density = {};
  std::optional<ValueCode> values = {};
  std::optional<IndexCode> indices = {};
  std::optional<Fusion> fuse = {};
  bool operator==(const Pins&) const = default;
};

// Limits of the grammar, wide enough for every trial and narrow enough to catch a slip. Guard-rails
// are control's.
inline constexpr int kMaxEvery = 1024;
inline constexpr int kMaxLate = 512;
// Above it a result lands before the next exchange departs: every= is at least late=. So no plan
// has more than 64 exchanges in flight.
inline constexpr int kMaxLateOfAny = 64;
inline constexpr int kMaxSegments = 4096;

// Words in any order, separated by spaces. Throws InputError that starts with `what`, points at the
// wrong word with a caret and lists the allowed ones.
[[nodiscard]] Pins parse_pins(std::string_view text, std::string_view what = "plan");

// One line, in the order of docs/plans.md; parse_pins gives the same pins back. Nothing pinned is
// "auto".
[[nodiscard]] std::string to_string(const Pins& pins);

// Why no plan can have all these parts, or nothing. More pins never remove a contradiction.
[[nodiscard]] std::optional<std::string> contradiction(const Pins& pins);

// InputError with the text, and a caret line under the `length` characters from `at` on.
[[noreturn]] void fail_at(std::string_view what, std::string_view text, std::size_t at,
                          std::size_t length, std::string_view why);

}  // namespace pliant::plan
