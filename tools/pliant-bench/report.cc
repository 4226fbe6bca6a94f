// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

namespace pliant::bench {
namespace {

std::size_t bytes_of(const Row& row) { return row.problem.count * sizeof(float); }
double algorithm_bandwidth(const Row& row) {
  return static_cast<double>(bytes_of(row)) / std::max(row.timing.median.value, 1e-12);
}
double bus_bandwidth(const Row& row) { return algorithm_bandwidth(row) * bus_factor(row.problem); }

std::string microseconds(Seconds time) { return digits(time.value * 1e6); }

struct Column {
  std::string title;
  std::string unit;
  std::function<std::string(const Row&)> cell;
};

// The columns of nccl-tests, then those that this run has besides.
std::vector<Column> columns_of(const Report& report, const Block& block) {
  std::vector<Column> columns = {
      {"size", "(B)", [](const Row& row) { return std::to_string(bytes_of(row)); }},
      {"count", "(elements)", [](const Row& row) { return std::to_string(row.problem.count); }},
      {"time", "(us)", [](const Row& row) { return microseconds(row.timing.median); }},
      {"algbw", "(GB/s)", [](const Row& row) { return digits(algorithm_bandwidth(row) * 1e-9); }},
      {"busbw", "(GB/s)", [](const Row& row) { return digits(bus_bandwidth(row) * 1e-9); }},
      {"#wrong", "",
       [](const Row& row) { return row.timing.wrong ? std::to_string(*row.timing.wrong) : "N/A"; }},
  };
  const auto over = [](const Row& row, const std::optional<Seconds>& other) {
    return other && other->value > 0 ? digits(row.timing.median / *other) : "-";
  };
  if (!report.reference.empty()) {
    columns.push_back({"time/" + report.reference, "",
                       [over](const Row& row) { return over(row, row.reference); }});
  }
  if (report.options.link) {
    columns.push_back({"price", "(us)",
                       [](const Row& row) { return row.price ? microseconds(*row.price) : "-"; }});
    columns.push_back({"time/bound", "", [over](const Row& row) { return over(row, row.bound); }});
  }
  if (std::ranges::any_of(block.rows, [](const Row& row) { return row.segments > 0; })) {
    columns.push_back(
        {"segments", "", [](const Row& row) { return std::to_string(row.segments); }});
  }
  return columns;
}

std::string draw(const Report& report, const Block& block) {
  const auto columns = columns_of(report, block);
  std::string text = fmt::format("#\n# {}, {}\n#", to_string(block.collective), block.name);
  const auto line = [&](const auto& cell_of) {
    for (const Column& column : columns) text += fmt::format("{:>12}", cell_of(column));
    text += "\n";
  };
  line([](const Column& column) { return column.title; });
  text += "#";
  line([](const Column& column) { return column.unit; });
  for (const Row& row : block.rows) {
    text += " ";
    line([&row](const Column& column) { return column.cell(row); });
  }
  return text;
}

nlohmann::json or_null(const std::optional<Seconds>& time) {
  return time ? nlohmann::json(time->value) : nlohmann::json(nullptr);
}

nlohmann::json as_json(const Block& block, const Row& row) {
  return {{"collective", to_string(block.collective)},
          {"schedule", block.name},
          {"segments", row.segments > 0 ? nlohmann::json(row.segments) : nlohmann::json(nullptr)},
          {"bytes", bytes_of(row)},
          {"count", row.problem.count},
          {"seconds", row.timing.median.value},
          {"seconds_low", row.timing.low.value},
          {"seconds_high", row.timing.high.value},
          {"algbw_bytes_per_second", algorithm_bandwidth(row)},
          {"busbw_bytes_per_second", bus_bandwidth(row)},
          {"wrong", row.timing.wrong ? nlohmann::json(*row.timing.wrong) : nlohmann::json(nullptr)},
          {"reference_seconds", or_null(row.reference)},
          {"price_seconds", or_null(row.price)},
          {"bound_seconds", or_null(row.bound)}};
}

}  // namespace

std::string digits(double value) {
  const double size = std::abs(value);
  return size >= 100  ? fmt::format("{:.0f}", value)
         : size >= 10 ? fmt::format("{:.1f}", value)
                      : fmt::format("{:.2f}", value);
}

bool Report::wrong() const {
  return std::ranges::any_of(blocks, [](const Block& block) {
    return std::ranges::any_of(block.rows,
                               [](const Row& row) { return row.timing.wrong.value_or(0) > 0; });
  });
}

std::string as_table(const Report& report) {
  const Options& options = report.options;
  std::string text = fmt::format(
      "# pliant-bench: {} ranks on {}; median of {} iterations after {}, each the slowest rank's\n",
      report.ranks, report.backend, options.iterations, options.warmups);
  if (options.link)
    text += fmt::format("# price and bound for {}\n", plan::describe(*options.link));
  if (report.reference == "memcpy")
    text += "# time/memcpy: over the time in which every rank copies its vector once\n";
  for (const Block& block : report.blocks) text += draw(report, block);
  const char* verdict = options.checks == 0 ? "not checked"
                        : report.wrong()    ? "WRONG VALUES, see #wrong"
                                            : "every value is right";
  return text + fmt::format("#\n# {}\n", verdict);
}

std::string as_json(const Report& report) {
  const Options& options = report.options;
  nlohmann::json document = {
      {"schema", kSchema},
      {"tool", "pliant-bench"},
      {"ranks", report.ranks},
      {"engine", report.backend},
      {"iterations", options.iterations},
      {"warmups", options.warmups},
      {"checks", options.checks},
      {"reference",
       report.reference.empty() ? nlohmann::json(nullptr) : nlohmann::json(report.reference)},
      {"link",
       options.link ? nlohmann::json(plan::to_string(*options.link)) : nlohmann::json(nullptr)},
      {"results", nlohmann::json::array()}};
  for (const Block& block : report.blocks) {
    for (const Row& row : block.rows) document["results"].push_back(as_json(block, row));
  }
  return document.dump(1) + "\n";
}

}  // namespace pliant::bench
