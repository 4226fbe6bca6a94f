// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/timeline/timeline.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "tools/pliant-lab/net/trace_file.h"

namespace pliant::lab {
namespace {

// Calls `visit` with every HostChange of the timeline.
template <typename T, typename Visit>
void each_change(T& timeline, const Visit& visit) {
  for (auto& change : timeline.start) visit(change);
  for (auto& phase : timeline.phases) {
    for (auto& change : phase.changes) visit(change);
  }
}

void scale_rate(std::optional<Rate>& rate, double bandwidth, double time) {
  if (!rate) return;
  rate->limit = rate->limit * bandwidth;
  if (rate->trace) rate->trace = scaled(*rate->trace, bandwidth, time);
}

void scale_times(Timeline& timeline, double factor) {
  for (Phase& phase : timeline.phases) {
    if (phase.at) phase.at = *phase.at * factor;
  }
  if (timeline.repeat) timeline.repeat = *timeline.repeat * factor;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw InputError(fmt::format("timeline '{}': cannot be read", path));
  return text.str();
}

bool looks_like_trace(const std::string& text) {
  return text.find_first_not_of("0123456789 \t\r\n") == std::string::npos;
}

Timeline trace_timeline(const std::string& text, const std::string& name) {
  std::istringstream stream(text);
  const Rate rate{.limit = {}, .trace = read_trace(stream, name)};
  HostChange change;
  change.change.out.rate = change.change.in.rate = rate;
  return {.name = name,
          .description = "packet-delivery trace",
          .start = {change},
          .phases = {},
          .repeat = {},
          .region_delays = {},
          .regions = {}};
}

Timeline load_file(const std::string& path) {
  const std::string text = read_text(path);
  if (path.ends_with(".csv")) return parse_csv(text, path);
  if (!path.ends_with(".toml") && looks_like_trace(text)) return trace_timeline(text, path);
  return parse_toml(text, path, std::filesystem::path(path).parent_path().string());
}

}  // namespace

std::vector<std::string> Timeline::phase_names() const {
  std::vector<std::string> names;
  for (const Phase& phase : phases) {
    if (!phase.name.empty()) names.push_back(phase.name);
  }
  return names;
}

const Phase& Timeline::phase(const std::string& wanted) const {
  const auto found = std::ranges::find(phases, wanted, &Phase::name);
  if (found != phases.end() && !wanted.empty()) return *found;
  const auto names = phase_names();
  if (names.empty())
    throw InputError(fmt::format(
        "phase '{}': this lab has no named phases; give it a timeline that names some", wanted));
  throw InputError(fmt::format("unknown phase '{}'{}", wanted, suggestion(wanted, names)));
}

DelayMatrix Timeline::delays(int hosts) const {
  if (regions.empty()) return {};
  const auto region = [&](int host) {
    return static_cast<std::size_t>(regions[static_cast<std::size_t>(host) % regions.size()]);
  };
  DelayMatrix matrix(static_cast<std::size_t>(hosts));
  for (int from = 0; from < hosts; ++from) {
    for (int to = 0; to < hosts; ++to)
      matrix[static_cast<std::size_t>(from)].push_back(region_delays[region(from)][region(to)]);
  }
  return matrix;
}

BytesPerSecond Timeline::fastest() const {
  BytesPerSecond most{0};
  each_change(*this, [&](const HostChange& c) {
    if (c.change.out.rate) most = std::max(most, c.change.out.rate->mean());
    if (c.change.in.rate) most = std::max(most, c.change.in.rate->mean());
  });
  return most;
}

void Timeline::require_hosts(int hosts) const {
  each_change(*this, [&](const HostChange& c) {
    if (c.host && *c.host >= hosts)
      throw InputError(fmt::format("timeline '{}': it names host {}, but there are hosts 0 to {}",
                                   name, *c.host, hosts - 1));
  });
}

Timeline scaled(Timeline timeline, double bandwidth, double time) {
  each_change(timeline, [&](HostChange& c) {
    scale_rate(c.change.out.rate, bandwidth, time);
    scale_rate(c.change.in.rate, bandwidth, time);
  });
  scale_times(timeline, time);
  return timeline;
}

Timeline load_timeline(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const Shipped& shipped : shipped_timelines()) {
    if (name_or_path == shipped.name) return parse_toml(shipped.text, shipped.name, "");
    names.emplace_back(shipped.name);
  }
  if (std::filesystem::is_regular_file(name_or_path)) return load_file(name_or_path);
  throw InputError(fmt::format("timeline '{}': neither a file nor a shipped timeline{}",
                               name_or_path, suggestion(name_or_path, names)));
}

}  // namespace pliant::lab
