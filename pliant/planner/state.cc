// SPDX-License-Identifier: MIT
#include "pliant/planner/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "pliant/common/errors.h"

namespace pliant::planner {
namespace {

using observe::Level;

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

double parse_number(std::string_view key, std::string_view text) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size())
    throw InputError(fmt::format("planner state: {} is '{}', which is not a number", key, text));
  return number;
}

// Reads the lines of a text in order, each of which must have the expected key.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  std::string_view value(std::string_view key) {
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    const std::string_view line = text_.substr(0, end);
    if (!line.starts_with(key))
      throw InputError(fmt::format("planner state: '{}' instead of {}", line, key));
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return line.substr(std::min(line.size(), key.size() + 1));
  }
  double number(std::string_view key) { return parse_number(key, value(key)); }
  std::vector<double> numbers(std::string_view key) {
    std::vector<double> all;
    for (std::string_view rest = value(key); !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      all.push_back(parse_number(key, rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return all;
  }
  [[nodiscard]] std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace

std::string to_text(const State& state) {
  std::vector<double> leads;
  for (const Level& lead : state.readiness.leads()) leads.push_back(lead.value());
  return fmt::format(
      "costs {}\nsteps {}\ncompute {}\ncoding {}\nleads {}\noverlap {}\ngain {}\ngain_density {}\n"
      "network {}\ncontrol\n{}",
      one_line(plan::to_text(state.costs)), state.steps, state.compute.level().value(),
      state.coding.level().value(), fmt::join(leads, " "), state.overlap.level().value(),
      state.gain.level().value(), state.gain.density(), state.network.to_text(),
      control::to_text(state.control));
}

void restore(State& state, std::string_view text) {
  Lines lines(text);
  State read = state;
  read.step_times.clear();
  read.costs = plan::parse_cost_table(lines.value("costs"));
  read.steps = static_cast<std::int64_t>(lines.number("steps"));
  read.compute.restore(Level(lines.number("compute")));
  read.coding.restore(Level(lines.number("coding")));
  read.readiness.restore(lines.numbers("leads"));
  read.overlap.restore(Level(lines.number("overlap")));
  const Level gain(lines.number("gain"));
  read.gain.restore(gain, lines.number("gain_density"));
  read.network = observe::parse_network(lines.value("network"));
  (void)lines.value("control");
  read.control = control::parse_state(lines.rest());
  state = std::move(read);
}

}  // namespace pliant::planner
