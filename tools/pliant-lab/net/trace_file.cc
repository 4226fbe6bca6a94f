// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/net/trace_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "pliant/common/errors.h"

namespace pliant::lab {
namespace {

// 24 h in ms: a larger number is not a time of a trace.
constexpr std::int64_t kLongest = 86'400'000;

std::int64_t parse_line(const std::string& line, const std::string& name, int number) {
  std::int64_t ms = -1;
  const auto [end, status] = std::from_chars(line.data(), line.data() + line.size(), ms);
  const bool whole =
      status == std::errc{} &&
      std::string_view(end, static_cast<std::size_t>(line.data() + line.size() - end))
              .find_first_not_of(" \r\t") == std::string_view::npos;
  if (!whole || ms < 0 || ms > kLongest) {
    throw InputError(fmt::format(
        "{}:{}: '{}' is not a time; a packet-delivery trace has one whole number of ms a line",
        name, number, line));
  }
  return ms;
}

}  // namespace

std::shared_ptr<const Trace> read_trace(std::istream& text, const std::string& name) {
  Trace trace;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    if (line.empty() || line.starts_with('#')) continue;
    const Time at = std::chrono::milliseconds(parse_line(line, name, number));
    if (!trace.opportunities.empty() && at < trace.opportunities.back())
      throw InputError(fmt::format("{}:{}: time goes back", name, number));
    trace.opportunities.push_back(at);
  }
  if (trace.opportunities.empty()) throw InputError(name + ": an empty trace");
  if (trace.opportunities.back() == Time(0))
    throw InputError(name + ": the last time of a trace is its period, and must be above 0");
  return std::make_shared<const Trace>(std::move(trace));
}

std::shared_ptr<const Trace> read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(fmt::format("trace '{}': no such file, or not readable", path));
  return read_trace(file, path);
}

std::shared_ptr<const Trace> scaled(const Trace& trace, double bandwidth, double time) {
  Trace copy = trace;
  copy.bytes *= bandwidth * time;
  for (Time& at : copy.opportunities) at = to_time(to_seconds(at) * time);
  copy.opportunities.back() = std::max(copy.opportunities.back(), Time(1));
  return std::make_shared<const Trace>(std::move(copy));
}

}  // namespace pliant::lab
