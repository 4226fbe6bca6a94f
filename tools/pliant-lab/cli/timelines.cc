// SPDX-License-Identifier: MIT
// pliant-lab timelines: the shipped ones, as a list or as the text of one.
#include <fmt/core.h>

#include "pliant/common/suggest.h"
#include "tools/pliant-lab/cli/commands.h"

namespace pliant::lab {

int list_timelines() {
  for (const Shipped& shipped : shipped_timelines()) {
    fmt::print("{:10} {}\n", shipped.name, parse_toml(shipped.text, shipped.name, "").description);
  }
  return 0;
}

int print_timeline(const std::string& name) {
  std::vector<std::string> names;
  for (const Shipped& shipped : shipped_timelines()) {
    if (name == shipped.name) return fmt::print("{}", shipped.text), 0;
    names.emplace_back(shipped.name);
  }
  throw InputError(fmt::format("no shipped timeline '{}'{}", name, suggestion(name, names)));
}

}  // namespace pliant::lab
