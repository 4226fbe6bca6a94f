// SPDX-License-Identifier: MIT
// Link of a host, each direction for itself, with its text form:
// "100mbit,10ms,loss=0.5%". `out` is what the host sends, `in` what it receives.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/pliant-lab/net/path.h"
#include "tools/pliant-lab/net/queue.h"

namespace pliant::lab {

struct Direction {
  Rate rate;
  Travel travel;
  QueueLimit queue;
  bool blackhole = false;  // swallows everything, silently
};

struct Link {
  Direction out;
  Direction in;
  bool down = false;
};

// A change names only the keys that it changes.
struct DirectionChange {
  std::optional<Rate> rate;
  std::optional<Seconds> delay;
  std::optional<Seconds> jitter;
  std::optional<double> loss;
  std::optional<double> reorder;
  std::optional<QueueLimit> queue;
  std::optional<bool> blackhole;
};

struct LinkChange {
  DirectionChange out;
  DirectionChange in;
  std::optional<bool> down;
};

void apply(const LinkChange& change, Link& link);

// "100mbit,10ms,jitter=2ms,loss=0.5%,reorder=1%,queue=100p,in.rate=20mbit,blackhole=out,down".
// Throws InputError that starts with `what`.
[[nodiscard]] LinkChange parse_link(std::string_view text, std::string_view what);
// One key with its value, as in that text or in a timeline; "in." or "out." in front confines it to
// one direction.
void parse_key(LinkChange& change, std::string_view key, std::string_view value,
               std::string_view what);
[[nodiscard]] std::span<const std::string> link_keys();

[[nodiscard]] std::string to_string(const Link& link);
[[nodiscard]] std::string to_string(const Direction& direction);
[[nodiscard]] std::string to_string(const QueueLimit& limit);

}  // namespace pliant::lab
