// SPDX-License-Identifier: MIT
// Truth log: the real state of the emulated network, as JSON lines. docs/formats/lab-truth.md
// describes every record.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/pliant-lab/host/sys.h"
#include "tools/pliant-lab/net/counters.h"
#include "tools/pliant-lab/net/link.h"

namespace pliant::lab {

[[nodiscard]] nlohmann::ordered_json to_json(const Link& link);
// The difference of two readings; the longest wait is that of the later one.
[[nodiscard]] nlohmann::ordered_json to_json(const Counters& now, const Counters& before);

// Lateness of the switch: the time between a packet's due arrival and its real one.
struct Lateness {
  std::int64_t packets = 0;
  std::int64_t over_1ms = 0;
  Time sum{0};
  Time longest{0};

  void add(Time late);
  void add(const Lateness& other);
};
[[nodiscard]] nlohmann::ordered_json to_json(const Lateness& lateness);

class Truth {
 public:
  Truth() = default;  // writes nowhere
  explicit Truth(Fd file) : file_(std::move(file)) {}
  [[nodiscard]] bool on() const { return file_.open(); }
  // One line: type, mono and wall in front of the record's own keys.
  void write(const char* type, Time now, const nlohmann::ordered_json& record);

 private:
  Fd file_;
};

}  // namespace pliant::lab
