// SPDX-License-Identifier: MIT
#include "tools/pliant-plan/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "pliant/common/errors.h"
#include "tools/command_line/command_line.h"

namespace pliant::what_if {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "pliant-run-log";
constexpr int kVersion = 1;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// A key that may be absent or null. json::exception if it is something else than a number.
std::optional<double> number(const json& line, const char* key) {
  if (!line.contains(key) || line[key].is_null()) return std::nullopt;
  const auto value = line[key].get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Takes a log in, line by line.
class Reader {
 public:
  explicit Reader(const std::string& path) { log_.path = path; }

  // Incomplete: the run ended while it was being written.
  void take(const std::string& text, bool incomplete) {
    ++line_number_;
    json line;
    try {
      line = json::parse(text);
    } catch (const json::exception&) {
      if (incomplete && line_number_ > 1) return;
      throw wrong(line_number_ == 1 ? "not JSON, so this is no run log" : "not JSON");
    }
    try {
      if (!line.is_object()) throw wrong("not a JSON object");
      const std::string type = line.value("type", "");
      if (line_number_ == 1) return header(line);
      if (type == "step") step(line);
    } catch (const json::exception& error) {
      throw wrong(error.what());
    }
  }

  [[nodiscard]] RunLog result() {
    if (line_number_ == 0) throw InputError(fmt::format("--log: '{}' is empty", log_.path));
    if (compute_.empty())
      throw InputError(fmt::format(
          "--log: '{}': no step says how long it computed; the run was too short", log_.path));
    log_.steps = static_cast<int>(compute_.size());
    log_.compute = {median(compute_)};
    for (const auto& [density, gains] : gains_)
      log_.gain.points.emplace_back(density, median(gains));
    if (!overlaps_.empty()) log_.overlap = median(overlaps_);
    if (!last_steps_.empty()) log_.last_step = {median(last_steps_)};
    if (last_steps_.empty()) log_.last_plan.reset();
    return log_;
  }

 private:
  void header(const json& line) {
    if (line.value("type", "") != "header" || line.value("format", "") != kFormat)
      throw wrong("no header of a run log");
    if (line.at("version") != kVersion)
      throw wrong(fmt::format("version {} of the format; this program reads {}",
                              line.at("version").dump(), kVersion));
    log_.ranks = line.at("world").get<int>();
    log_.lanes = line.at("lanes").get<int>();
    log_.parameters = line.at("parameters").get<std::size_t>();
    log_.buckets = line.at("buckets").get<std::vector<std::size_t>>();
    log_.adam = line.contains("optimizer") && line["optimizer"] == "adam";
    if (line.contains("options") && line["options"].is_object())
      if (log_.ranks < 1 || log_.lanes < 0 || log_.parameters < 1 ||
          std::ranges::find(log_.buckets, 0U) != log_.buckets.end())
        throw wrong("world, lanes, parameters and buckets must be above 0");
    try {
      log_.costs = plan::parse_cost_table(line.at("costs").get<std::string>());
    } catch (const InputError& error) {
      throw wrong(error.what());
    }
  }

  void step(const json& line) {
    if (const auto compute = number(line, "compute"); compute && *compute > 0)
      compute_.push_back(*compute);
    if (line.contains("link") && !line["link"].is_null()) link(line["link"]);
    const plan::Plan plan = read_plan(line.at("plan").get<std::string>());
    if (log_.last_plan != plan) last_steps_.clear();
    log_.last_plan = plan;
    if (const auto whole = number(line, "whole")) last_steps_.push_back(*whole);
    if (line.value("void", false)) return;
    if (plan.scheme == plan::Scheme::kDense || plan.density >= 1) return;
    const auto gain = number(line, "gain");
    if (gain && *gain > 0 && *gain <= 1) gains_[plan.density].push_back(*gain);
    const auto updated = number(line, "updated");
    if (plan.scheme == plan::Scheme::kUnion && log_.ranks > 1 && updated && *updated > 0)
      overlaps_.push_back(model::overlap_of(*updated, plan.density, log_.ranks));
  }

  void link(const json& line) {
    const auto latency = number(line, "latency");
    const auto rate = number(line, "rate");
    if (!latency || !rate || *latency < 0 || *rate <= 0) return;
    plan::Link link = plan::link_of(from_bits_per_second(*rate), {*latency});
    link.latency_uncertainty = {number(line, "latency_sd").value_or(0)};
    link.seconds_per_byte_uncertainty =
        link.seconds_per_byte * number(line, "rate_sd").value_or(0) / *rate;
    log_.link = link;
  }

  // Few different plans, many steps.
  const plan::Plan& read_plan(const std::string& text) {
    const auto found = plans_.find(text);
    if (found != plans_.end()) return found->second;
    try {
      return plans_.emplace(text, plan::parse_plan(text)).first->second;
    } catch (const InputError& error) {
      throw wrong(error.what());
    }
  }

  [[nodiscard]] InputError wrong(const std::string& why) const {
    return InputError(fmt::format("--log: '{}', line {}: {}", log_.path, line_number_, why));
  }

  RunLog log_;
  int line_number_ = 0;
  std::vector<double> compute_, overlaps_, last_steps_;
  std::map<double, std::vector<double>> gains_;  // by density
  std::map<std::string, plan::Plan> plans_;
};

}  // namespace

RunLog read_run_log(const std::string& path) {
  std::istringstream in(command_line::read_file(path, "--log"));
  Reader reader(path);
  for (std::string line; std::getline(in, line);) reader.take(line, in.eof());
  return reader.result();
}

}  // namespace pliant::what_if
