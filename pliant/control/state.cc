// SPDX-License-Identifier: MIT
#include "pliant/control/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <map>

#include "pliant/common/errors.h"

namespace pliant::control {
namespace {

// Each field is named once, for writing and for reading.
template <typename Value, typename Visit>
void visit_fields(Value& state, Visit&& visit) {
  visit("epoch", state.epoch);
  visit("in_force", state.in_force);
  visit("goal", state.goal);
  visit("switched", state.hysteresis.switched);
  visit("sparser", state.ramp.sparser);
  visit("denser", state.ramp.denser);
  visit("before_denser", state.ramp.before_denser);
  visit("unsettled_until", state.hysteresis.unsettled_until);
  visit("unsettled_for", state.hysteresis.unsettled_for);
  visit("challenger", state.hysteresis.challenger);
  visit("confirmed", state.hysteresis.confirmed);
  visit("after_trial", state.trials.after_trial);
  visit("next_trial", state.trials.next_trial);
  visit("marks", state.last.numbers);
  visit("evaluated", state.last.step);
  visit("compared", state.plain_check.compared);
  visit("compared_step", state.plain_check.compared_step);
  visit("plain_step", state.plain_check.plain_step);
  visit("plain_seen", state.plain_check.plain_seen);
  visit("overhead", state.plain_check.overhead);
  visit("next_check", state.plain_check.next);
  visit("check_period", state.plain_check.period);
}

// Fields that states of version 0.1 do not have.
bool may_be_missing(std::string_view name) {
  return name == "compared" || name == "compared_step" || name == "plain_step" ||
         name == "plain_seen" || name == "overhead" || name == "next_check" ||
         name == "check_period";
}

template <typename Number>
Number number_of(std::string_view text) {
  Number number{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size())
    throw InputError(fmt::format("control state: '{}' is not a number", text));
  return number;
}

std::string text_of(const std::optional<plan::Plan>& plan) {
  return plan ? to_string(*plan) : "none";
}
std::string text_of(const std::vector<double>& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}
template <typename Number>
std::string text_of(Number number) {
  return fmt::format("{}", number);
}

void read_into(std::optional<plan::Plan>& plan, std::string_view text) {
  plan = text == "none" ? std::nullopt : std::optional(plan::parse_plan(text, "control state"));
}
void read_into(std::vector<double>& numbers, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    numbers.push_back(number_of<double>(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}
template <typename Number>
void read_into(Number& number, std::string_view text) {
  number = number_of<Number>(text);
}

}  // namespace

std::string to_text(const State& state) {
  std::string text;
  visit_fields(state, [&](std::string_view name, const auto& field) {
    text += fmt::format("{} {}\n", name, text_of(field));
  });
  return text;
}

State parse_state(std::string_view text) {
  std::map<std::string, std::string, std::less<>> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string key(line.substr(0, space));
    if (!lines.emplace(key, line.substr(std::min(space + 1, line.size()))).second)
      throw InputError(fmt::format("control state: '{}' is there twice", key));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  State state;
  visit_fields(state, [&](std::string_view name, auto& field) {
    const auto line = lines.find(name);
    if (line == lines.end() && may_be_missing(name)) return;
    if (line == lines.end()) throw InputError(fmt::format("control state: '{}' is missing", name));
    read_into(field, line->second);
    lines.erase(line);
  });
  if (!lines.empty())
    throw InputError(fmt::format("control state: '{}' is not known", lines.begin()->first));
  return state;
}

}  // namespace pliant::control
