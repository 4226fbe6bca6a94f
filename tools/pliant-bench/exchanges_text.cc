// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "tools/pliant-bench/exchanges.h"
#include "tools/pliant-bench/report.h"

namespace pliant::bench {
namespace {

double dense_bytes(const ExchangeRow& row) {
  return static_cast<double>(row.count * sizeof(float));
}
double effective_bandwidth(const ExchangeRow& row) {
  return dense_bytes(row) / std::max(row.timing.median.value, 1e-12);
}

struct Column {
  std::string title;
  std::string unit;
  std::function<std::string(const ExchangeRow&)> cell;
};

std::string share(const ExchangeRow& row, Seconds part) {
  return row.plan ? digits(100 * part.value / std::max(row.own.value, 1e-12)) : "-";
}

std::vector<Column> columns_of(const ExchangeReport& report) {
  using Row = const ExchangeRow&;
  const auto over = [](Row row, const std::optional<Seconds>& other) {
    return other && other->value > 0 ? digits(row.timing.median / *other) : "-";
  };
  std::vector<Column> columns = {
      {"count", "(elements)", [](Row row) { return std::to_string(row.count); }},
      {"density", "(%)",
       [](Row row) { return row.plan ? fmt::format("{:.4g}", 100 * row.plan->density) : "-"; }},
      {"time", "(us)", [](Row row) { return digits(row.timing.median.value * 1e6); }},
      {"wire", "(B)",
       [](Row row) { return row.plan ? fmt::format("{:.0f}", row.wire_bytes) : "-"; }},
      {"effbw", "(GB/s)", [](Row row) { return digits(effective_bandwidth(row) * 1e-9); }},
      {"select", "(%)", [](Row row) { return share(row, row.select); }},
      {"encode", "(%)", [](Row row) { return share(row, row.encode); }},
      {"wire", "(%)", [](Row row) { return share(row, row.wire); }},
      {"decode", "(%)", [](Row row) { return share(row, row.decode); }},
      {"#wrong", "",
       [](Row row) { return row.timing.wrong ? std::to_string(*row.timing.wrong) : "N/A"; }},
  };
  if (!report.reference.empty()) {
    columns.push_back({"time/dense", "", [over](Row row) { return over(row, row.dense); }});
    columns.push_back(
        {"time/" + report.reference, "", [over](Row row) { return over(row, row.reference); }});
  }
  if (report.options.link)
    columns.push_back({"price", "(us)",
                       [](Row row) { return row.price ? digits(row.price->value * 1e6) : "-"; }});
  return columns;
}

std::string name_of(const ExchangeReport& report, const ExchangeRow& row) {
  return row.plan ? to_string(*row.plan) : report.reference;
}

nlohmann::json or_null(const std::optional<Seconds>& time) {
  return time ? nlohmann::json(time->value) : nlohmann::json(nullptr);
}

nlohmann::json as_json(const ExchangeReport& report, const ExchangeRow& row) {
  nlohmann::json object = {
      {"plan", name_of(report, row)},
      {"count", row.count},
      {"bytes", row.count * sizeof(float)},
      {"seconds", row.timing.median.value},
      {"seconds_low", row.timing.low.value},
      {"seconds_high", row.timing.high.value},
      {"effective_bandwidth_bytes_per_second", effective_bandwidth(row)},
      {"wrong", row.timing.wrong ? nlohmann::json(*row.timing.wrong) : nlohmann::json(nullptr)},
      {"reference_seconds", or_null(row.reference)},
      {"dense_seconds", or_null(row.dense)},
      {"price_seconds", or_null(row.price)}};
  for (const char* key : {"scheme", "density", "kept", "wire_bytes", "messages", "updated_fraction",
                          "select_seconds", "encode_seconds", "wire_seconds", "decode_seconds"}) {
    object[key] = nullptr;
  }
  if (!row.plan) return object;
  object["scheme"] = to_string(row.plan->scheme);
  object["density"] = row.plan->density;
  object["kept"] = row.kept;
  object["wire_bytes"] = row.wire_bytes;
  object["messages"] = row.messages;
  object["updated_fraction"] =
      report.hollow ? nlohmann::json(nullptr) : nlohmann::json(row.updated_fraction);
  object["select_seconds"] = row.select.value;
  object["encode_seconds"] = row.encode.value;
  object["wire_seconds"] = row.wire.value;
  object["decode_seconds"] = row.decode.value;
  return object;
}

}  // namespace

std::string as_table(const ExchangeReport& report) {
  const Options& options = report.options;
  std::string text = fmt::format(
      "# pliant-bench: exchanges of {} ranks on {}; median of {} iterations after {}, each the "
      "slowest rank's\n",
      report.ranks, report.backend, options.iterations, options.warmups);
  if (options.link) text += fmt::format("# price for {}\n", plan::describe(*options.link));
  if (report.hollow) text += "# messages of the expected sizes, without content\n";
  const auto columns = columns_of(report);
  const auto line = [&](const auto& cell_of, const std::string& last) {
    for (const Column& column : columns) text += fmt::format("{:>12}", cell_of(column));
    text += "  " + last + "\n";
  };
  text += "#\n#";
  line([](const Column& column) { return column.title; }, "plan");
  text += "#";
  line([](const Column& column) { return column.unit; }, "");
  for (const ExchangeRow& row : report.rows) {
    text += " ";
    line([&row](const Column& column) { return column.cell(row); }, name_of(report, row));
  }
  const char* verdict = options.checks == 0 ? "not checked"
                        : report.wrong()    ? "WRONG VALUES, see #wrong"
                                            : "every value is right";
  return text + fmt::format("#\n# {}\n", verdict);
}

std::string as_json(const ExchangeReport& report) {
  const Options& options = report.options;
  nlohmann::json document = {
      {"schema", kSchema},
      {"tool", "pliant-bench"},
      {"ranks", report.ranks},
      {"engine", report.backend},
      {"iterations", options.iterations},
      {"warmups", options.warmups},
      {"checks", options.checks},
      {"hollow", report.hollow},
      {"reference",
       report.reference.empty() ? nlohmann::json(nullptr) : nlohmann::json(report.reference)},
      {"link",
       options.link ? nlohmann::json(plan::to_string(*options.link)) : nlohmann::json(nullptr)},
      {"results", nlohmann::json::array()}};
  for (const ExchangeRow& row : report.rows) document["results"].push_back(as_json(report, row));
  return document.dump(1) + "\n";
}

}  // namespace pliant::bench
