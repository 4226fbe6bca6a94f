// SPDX-License-Identifier: MIT
#include "tools/pliant-plan/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pliant/plan/density.h"

namespace pliant::what_if {
namespace {

using model::Prediction;
using nlohmann::json;

std::string bytes_text(double bytes) {
  return pliant::to_string(Bytes{static_cast<std::int64_t>(bytes)});
}

json as_json(const Prediction& prediction, const Advice& advice) {
  return {{"plan", to_string(prediction.plan)},
          {"scheme", to_string(prediction.plan.scheme)},
          {"step_seconds", prediction.step.value},
          {"exposed_seconds", prediction.exposed.value},
          {"exchange_seconds", prediction.exchange.value},
          {"bytes_per_step", prediction.bytes},
          {"updated_fraction", prediction.updated_fraction},
          {"efficiency", prediction.efficiency},
          {"gain", prediction.gain},
          {"speed_up", advice.speed_up(prediction)}};
}

std::string csv_line(const Prediction& prediction, const Advice& advice) {
  return fmt::format("{},{},{},{},{},{},{}\n", to_string(prediction.plan), prediction.step.value,
                     prediction.exposed.value, prediction.bytes, prediction.updated_fraction,
                     prediction.efficiency, advice.speed_up(prediction));
}

constexpr const char* kCsvColumns =
    "plan,step_seconds,exposed_seconds,bytes_per_step,updated_fraction,efficiency,speed_up";

std::string row(std::string_view plan, std::string_view step, std::string_view exposed,
                std::string_view sent, std::string_view efficiency, std::string_view speed_up) {
  return fmt::format("{:>9}  {:>9}  {:>10}  {:>10}  {:>8}  {}\n", step, exposed, sent, efficiency,
                     speed_up, plan);
}

// Where the inputs came from, and how well the model explains that run.
std::string log_text(const RunLog& log, const Advice& advice, const Options& options) {
  std::string text = fmt::format("From {}: {} ranks, compute {} (median of {} steps)", log.path,
                                 log.ranks, pliant::to_string(log.compute), log.steps);
  if (log.link) text += fmt::format(", network {}", plan::describe(*log.link));
  text += options.as_logged ? ".\n" : "; what was typed beside it wins.\n";
  if (advice.replay) {
    text +=
        fmt::format("It ended with {}: {} a step, predicted {}.\n", to_string(advice.replay->plan),
                    pliant::to_string(log.last_step), pliant::to_string(advice.replay->step));
  }
  return text;
}

json log_json(const RunLog& log, const Advice& advice) {
  json out = {{"path", log.path},
              {"ranks", log.ranks},
              {"steps", log.steps},
              {"compute_seconds", log.compute.value},
              {"gain", json::array()}};
  out["link"] = log.link ? json(to_string(*log.link)) : json(nullptr);
  out["overlap"] = log.overlap ? json(*log.overlap) : json(nullptr);
  for (const auto& [density, gain] : log.gain.points)
    out["gain"].push_back({{"density", density}, {"gain", gain}});
  if (advice.replay) {
    out["last_plan"] = to_string(advice.replay->plan);
    out["last_step_seconds"] = log.last_step.value;
    out["last_step_predicted_seconds"] = advice.replay->step.value;
  }
  return out;
}

std::string table(const Advice& advice, const Options& options,
                  std::optional<BytesPerSecond> break_even) {
  std::string text = verdict(advice) + "\n";
  if (break_even) {
    text += fmt::format("Plain dense is within 2 % from {} on{}.\n", pliant::to_string(*break_even),
                        all_equal(options.inputs.world.links)
                            ? ""
                            : " (the slowest link; the others scaled alike)");
  } else {
    text += "There is no bandwidth between 1 Mbit/s and 1 Tbit/s where that changes.\n";
  }
  if (options.log) text += log_text(*options.log, advice, options);
  text += "\n" + row("plan", "step", "exposed", "sent/step", "efficiency", "speed-up");
  const auto line = [&](const Prediction& p) {
    return row(to_string(p.plan), pliant::to_string(p.step), pliant::to_string(p.exposed),
               bytes_text(p.bytes), fmt::format("{:.3f}", p.efficiency),
               fmt::format("{:.3g}x", advice.speed_up(p)));
  };
  for (const Prediction& each : advice.schemes) text += line(each);
  text += line(advice.plain);
  return text + fmt::format(
                    "\nspeed-up: progress per second over the last line; {} plans predicted; "
                    "efficiencies are those of docs/control.md\n",
                    advice.candidates);
}

}  // namespace

std::string verdict(const Advice& advice) {
  const double speed_up = advice.speed_up(advice.best);
  if (speed_up <= kWorthIt) return "do not compress: plain dense is within 2 %";
  const plan::Plan& plan = advice.best.plan;
  const std::string scheme = plan.scheme == plan::Scheme::kShared
                                 ? fmt::format("shared/{}", to_string(plan.leader))
                                 : std::string(to_string(plan.scheme));
  if (plan.scheme == plan::Scheme::kDense && plan.values == plan::ValueCode::kF32) {
    return fmt::format("do not compress, but exchange otherwise: {}, {:.3g}x", to_string(plan),
                       speed_up);
  }
  return fmt::format("compress: {} at {}{}, {:.3g}x", scheme, plan::density_text(plan.density),
                     plan.kind == plan::Kind::kUpdates
                         ? fmt::format(" (updates every {}, {} late)", plan.every, plan.late)
                         : "",
                     speed_up);
}

std::string report(const Options& options, const Advice& advice,
                   std::optional<BytesPerSecond> break_even) {
  if (options.form == Form::kTable) return table(advice, options, break_even);
  if (options.form == Form::kCsv) {
    std::string text = std::string(kCsvColumns) + "\n";
    for (const Prediction& each : advice.schemes) text += csv_line(each, advice);
    return text + csv_line(advice.plain, advice);
  }
  json document = {{"pliant_plan", 1},
                   {"verdict", verdict(advice)},
                   {"candidates", advice.candidates},
                   {"best", as_json(advice.best, advice)},
                   {"plain", as_json(advice.plain, advice)},
                   {"schemes", json::array()}};
  document["break_even_bits_per_second"] =
      break_even ? json(bits_per_second(*break_even)) : json(nullptr);
  if (options.log) document["log"] = log_json(*options.log, advice);
  for (const Prediction& each : advice.schemes)
    document["schemes"].push_back(as_json(each, advice));
  return document.dump(2) + "\n";
}

std::string report_sweep(const Options& options, const std::vector<Swept>& rows) {
  if (options.form == Form::kJson) {
    json document = {{"pliant_plan", 1}, {"sweep", json::array()}};
    for (const auto& [link, advice] : rows) {
      json entry = as_json(advice.best, advice);
      entry["link"] = to_string(link);
      entry["verdict"] = verdict(advice);
      document["sweep"].push_back(entry);
    }
    return document.dump(2) + "\n";
  }
  if (options.form == Form::kCsv) {
    std::string text = fmt::format("bandwidth_bits_per_second,latency_seconds,{}\n", kCsvColumns);
    for (const auto& [link, advice] : rows)
      text += fmt::format("{},{},{}", bits_per_second(bandwidth(link)), link.latency.value,
                          csv_line(advice.best, advice));
    return text;
  }
  std::string text = fmt::format("{:>12}  {:>8}  {:>9}  {:>9}  {:>8}  {}\n", "bandwidth", "latency",
                                 "dense", "step", "speed-up", "best plan");
  for (const auto& [link, advice] : rows) {
    text += fmt::format("{:>12}  {:>8}  {:>9}  {:>9}  {:>7.3g}x  {}\n",
                        pliant::to_string(bandwidth(link)), pliant::to_string(link.latency),
                        pliant::to_string(advice.plain.step), pliant::to_string(advice.best.step),
                        advice.speed_up(advice.best), to_string(advice.best.plan));
  }
  return text;
}

}  // namespace pliant::what_if
