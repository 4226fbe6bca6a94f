// SPDX-License-Identifier: MIT
// Timeline of a network: the links at the start, and phases that begin at a time, by name, or both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/pliant-lab/net/link.h"
#include "tools/pliant-lab/net/network.h"

namespace pliant::lab {

struct HostChange {
  std::optional<int> host;  // nothing: every host
  LinkChange change;
};

struct Phase {
  std::string name;           // may be empty if it has a time
  std::optional<Seconds> at;  // since the start
  std::vector<HostChange> changes;
};

struct Timeline {
  std::string name;
  std::string description;
  std::vector<HostChange> start;
  std::vector<Phase> phases;      // those with a time in its order
  std::optional<Seconds> repeat;  // begin again after this long
  DelayMatrix region_delays;      // between regions
  std::vector<int> regions;       // of the hosts; a shorter list repeats

  [[nodiscard]] std::vector<std::string> phase_names() const;
  [[nodiscard]] const Phase& phase(
      const std::string& name) const;  // InputError with a suggestion if there is none
  [[nodiscard]] DelayMatrix delays(int hosts) const;
  // The largest rate that it ever sets, 0 if none.
  [[nodiscard]] BytesPerSecond fastest() const;
  void require_hosts(int hosts) const;  // InputError if it names a host that is not there
};

[[nodiscard]] Timeline scaled(Timeline timeline, double bandwidth, double time);

// A file's path, or the name of a shipped timeline. Files are TOML, CSV (t,rate,delay,loss) or
// packet-delivery traces.
[[nodiscard]] Timeline load_timeline(const std::string& name_or_path);

[[nodiscard]] Timeline parse_toml(const std::string& text, const std::string& name,
                                  const std::string& folder);
[[nodiscard]] Timeline parse_csv(const std::string& text, const std::string& name);

// The shipped ones are in the executable.
struct Shipped {
  const char* name;
  const char* text;
};
[[nodiscard]] std::vector<Shipped> shipped_timelines();

}  // namespace pliant::lab
