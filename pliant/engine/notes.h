// SPDX-License-Identifier: MIT
// User's access to the run log: adds notes, phases and messages, and reads the last step as text.
// Without a log the lines are dropped. Any thread may call.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "pliant/common/log.h"
#include "pliant/common/units.h"

namespace pliant::engine {

struct Parts;

class Notes {
 public:
  explicit Notes(Parts& parts) : parts_(parts) {}

  // Numbers of the user's, such as a loss. They belong to the last step that has begun.
  void note(std::span<const std::pair<std::string, double>> values);
  void phase(std::string_view name);  // from the next step on
  void message(Severity severity, std::string_view text);
  // Bytes that this rank sent in collectives of the caller's own: summary and log include them.
  void count_sent(Bytes bytes);
  // The last step that is complete, and sums over all that are, as one JSON object. Empty unless
  // there is a log or RunLogOptions::watched.
  [[nodiscard]] std::string latest() const;

 private:
  Parts& parts_;
};

}  // namespace pliant::engine
