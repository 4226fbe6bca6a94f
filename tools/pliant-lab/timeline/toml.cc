// SPDX-License-Identifier: MIT
// Timelines in TOML. docs/formats/timeline.md describes them; an unknown key is an error, with the
// nearest known one.
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "tools/pliant-lab/timeline/timeline.h"

namespace pliant::lab {
namespace {

struct Reader {
  std::string name;    // of the file, for messages
  std::string folder;  // that paths of traces are relative to

  [[nodiscard]] std::string where(const toml::node& node) const {
    return fmt::format("{}:{}", name, node.source().begin.line);
  }

  [[noreturn]] void fail(const toml::node& node, const std::string& text) const {
    throw InputError(where(node) + ": " + text);
  }

  [[nodiscard]] std::string text(const toml::node& node, std::string_view key,
                                 std::string_view example) const {
    if (const auto* value = node.as_string()) return value->get();
    fail(node, fmt::format("{} must be text with its unit, as in {} = \"{}\"", key, key, example));
  }

  [[nodiscard]] const toml::table& table(const toml::node& node, std::string_view key) const {
    if (const auto* value = node.as_table()) return *value;
    fail(node, fmt::format("{} must be a table", key));
  }

  [[nodiscard]] const toml::array& array(const toml::node& node, std::string_view key) const {
    if (const auto* value = node.as_array()) return *value;
    fail(node, fmt::format("{} must be a list", key));
  }

  void refuse(const toml::node& node, std::string_view key,
              std::span<const std::string> known) const {
    fail(node, fmt::format("unknown key '{}'{}", key, suggestion(key, known)));
  }

  // Links
  // -------------------------------------------------------------------------------------------------------------

  void link_value(LinkChange& change, const std::string& key, const toml::node& value) const {
    std::string written = text(value, key, key.ends_with("delay") ? "10ms" : "100mbit");
    if (key.ends_with("trace")) written = (std::filesystem::path(folder) / written).string();
    parse_key(change, key, written, where(value));
  }

  // link = "100mbit,10ms" or a table with the same keys; in = {...} and out = {...} for one
  // direction.
  [[nodiscard]] LinkChange link(const toml::node& node) const {
    if (const auto* written = node.as_string())
      return parse_link(written->get(), where(node) + ": link");
    LinkChange change;
    for (const auto& [key, value] : table(node, "link")) {
      const std::string side(key.str());
      if (side != "in" && side != "out") {
        link_value(change, side, value);
        continue;
      }
      for (const auto& [inner, inner_value] : table(value, side))
        link_value(change, side + "." + std::string(inner.str()), inner_value);
    }
    return change;
  }

  [[nodiscard]] int host_number(const toml::key& key, const toml::node& node) const {
    const std::string written(key.str());
    const bool number = !written.empty() && written.size() < 4 &&
                        std::ranges::all_of(written, [](char c) { return c >= '0' && c <= '9'; });
    if (!number)
      fail(node,
           fmt::format("'{}' is not a host; hosts are numbered from 0, as in host.3", written));
    return std::stoi(written);
  }

  // The keys `link` and `host`, which a timeline and each of its phases have.
  void changes(const toml::table& from, std::vector<HostChange>& into) const {
    if (const auto* all = from.get("link")) into.push_back({std::nullopt, link(*all)});
    const auto* hosts = from.get("host");
    if (hosts == nullptr) return;
    for (const auto& [key, value] : table(*hosts, "host"))
      into.push_back({host_number(key, value), link(value)});
  }

  // Phases
  // ------------------------------------------------------------------------------------------------------------

  [[nodiscard]] Phase phase(const toml::node& node) const {
    static const std::array<std::string, 4> known = {"name", "at", "link", "host"};
    Phase phase;
    const toml::table& from = table(node, "phase");
    for (const auto& [key, value] : from) {
      if (std::ranges::find(known, key.str()) == known.end()) refuse(value, key.str(), known);
    }
    if (const auto* at = from.get("at"))
      phase.at = parse_duration(text(*at, "at", "30s"), where(*at) + ": at");
    if (const auto* called = from.get("name")) phase.name = text(*called, "name", "slow");
    changes(from, phase.changes);
    if (!phase.at && phase.name.empty())
      fail(node, "a phase needs at = \"30s\" or name = \"slow\", or both");
    if (phase.changes.empty()) fail(node, "a phase changes nothing; give it link or host");
    return phase;
  }

  void phases(const toml::node& node, Timeline& timeline) const {
    for (const auto& element : array(node, "phase")) {
      Phase next = phase(element);
      const auto names = timeline.phase_names();
      if (!next.name.empty() && std::ranges::find(names, next.name) != names.end())
        fail(element, fmt::format("a second phase named '{}'", next.name));
      timeline.phases.push_back(std::move(next));
    }
  }

  // Regions
  // -----------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<std::string> texts(const toml::node& node, std::string_view key,
                                               std::string_view example) const {
    std::vector<std::string> all;
    for (const auto& element : array(node, key)) all.push_back(text(element, key, example));
    return all;
  }

  [[nodiscard]] int region_index(const toml::node& node, const std::string& region,
                                 const std::vector<std::string>& names) const {
    const auto found = std::ranges::find(names, region);
    if (found == names.end())
      fail(node, fmt::format("unknown region '{}'{}", region, suggestion(region, names)));
    return static_cast<int>(found - names.begin());
  }

  [[nodiscard]] std::vector<Seconds> delay_row(const toml::node& node, std::size_t regions) const {
    std::vector<Seconds> row;
    for (const std::string& delay : texts(node, "delay", "10ms"))
      row.push_back(parse_duration(delay, where(node) + ": delay"));
    if (row.size() != regions)
      fail(node, fmt::format("{} delays in a row of {} regions", row.size(), regions));
    return row;
  }

  void regions(const toml::node& node, Timeline& timeline) const {
    static const std::array<std::string, 3> known = {"names", "hosts", "delay"};
    const toml::table& from = table(node, "regions");
    for (const auto& [key, value] : from) {
      if (std::ranges::find(known, key.str()) == known.end()) refuse(value, key.str(), known);
    }
    for (const std::string& key : known) {
      if (!from.contains(key)) fail(node, fmt::format("regions needs {}", key));
    }
    const auto names = texts(*from.get("names"), "names", "eu");
    if (names.empty()) fail(node, "regions needs at least one name");
    for (const std::string& region : texts(*from.get("hosts"), "hosts", "eu"))
      timeline.regions.push_back(region_index(node, region, names));
    for (const auto& row : array(*from.get("delay"), "delay"))
      timeline.region_delays.push_back(delay_row(row, names.size()));
    if (timeline.region_delays.size() != names.size())
      fail(node, fmt::format("{} rows of delays for {} regions", timeline.region_delays.size(),
                             names.size()));
    if (timeline.regions.empty()) fail(node, "regions needs hosts, as in hosts = [\"eu\", \"us\"]");
  }

  // The file
  // ----------------------------------------------------------------------------------------------------------

  void top_level(const toml::key& key, const toml::node& value, Timeline& timeline) const {
    static const std::array<std::string, 6> known = {"description", "link",   "host",
                                                     "phase",       "repeat", "regions"};
    const std::string_view name_of_key = key.str();
    if (name_of_key == "description") {
      timeline.description = text(value, "description", "one line");
    } else if (name_of_key == "repeat") {
      timeline.repeat = parse_duration(text(value, "repeat", "60s"), where(value) + ": repeat");
    } else if (name_of_key == "phase") {
      phases(value, timeline);
    } else if (name_of_key == "regions") {
      regions(value, timeline);
    } else if (std::ranges::find(known, name_of_key) == known.end()) {
      refuse(value, name_of_key, known);
    }
  }
};

toml::table parse_table(const std::string& text, const std::string& name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    throw InputError(
        fmt::format("{}:{}: {}", name, error.source().begin.line, error.description()));
  }
}

void order_by_time(Timeline& timeline) {
  std::ranges::stable_sort(timeline.phases, {},
                           [](const Phase& phase) { return phase.at.value_or(Seconds{0}); });
}

void require_sound_repeat(const Timeline& timeline) {
  if (!timeline.repeat) return;
  for (const Phase& phase : timeline.phases) {
    if (phase.at && *phase.at < *timeline.repeat) return;
  }
  throw InputError(fmt::format("{}: repeat needs a phase with a time before it", timeline.name));
}

}  // namespace

Timeline parse_toml(const std::string& text, const std::string& name, const std::string& folder) {
  const toml::table root = parse_table(text, name);
  if (root.empty())
    throw InputError(fmt::format("{}: it is empty; a timeline has a link or [[phase]]s", name));
  const Reader reader{name, folder};
  Timeline timeline;
  timeline.name = name;
  for (const auto& [key, value] : root) reader.top_level(key, value, timeline);
  reader.changes(root, timeline.start);
  order_by_time(timeline);
  require_sound_repeat(timeline);
  return timeline;
}

}  // namespace pliant::lab
