// SPDX-License-Identifier: MIT
#include "tools/pliant-plan/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pliant/plan/density.h"

namespace pliant::what_if {
namespace {

using model::Prediction;
using nlohmann::json;

std::string bytes_text(double bytes) {
  return pliant::to_string(Bytes{static_cast<std::int64_t>(bytes)});
}

// Plain DDP needs nothing of pliant's.
double memory_of(const Prediction& prediction, const Advice& advice, const Options& options) {
  if (&prediction == &advice.plain) return 0;
  // A rank of an island keeps the base of the whole model, and exchanges a part of it.
  const double base = options.islands && options.islands->ranks > 1
                          ? static_cast<double>(sizeof(float)) * options.islands->ranks
                          : 0;
  return memory_per_parameter(prediction.plan, options.inputs) + base;
}

json as_json(const Prediction& prediction, const Advice& advice, const Options& options) {
  const Range efficiency = efficiency_range(prediction);
  const Range speed_up = advice.speed_up_range(prediction);
  return {{"plan", to_string(prediction.plan)},
          {"scheme", to_string(prediction.plan.scheme)},
          {"step_seconds", prediction.step.value},
          {"exposed_seconds", prediction.exposed.value},
          {"exchange_seconds", prediction.exchange.value},
          {"bytes_per_step", prediction.bytes},
          {"updated_fraction", prediction.updated_fraction},
          {"efficiency", prediction.efficiency},
          {"efficiency_low", efficiency.low},
          {"efficiency_high", efficiency.high},
          {"gain", prediction.gain},
          {"memory_bytes_per_parameter", memory_of(prediction, advice, options)},
          {"speed_up", advice.speed_up(prediction)},
          {"speed_up_low", speed_up.low},
          {"speed_up_high", speed_up.high}};
}

std::string csv_line(const Prediction& prediction, const Advice& advice, const Options& options) {
  const Range speed_up = advice.speed_up_range(prediction);
  return fmt::format("{},{},{},{},{},{},{},{},{},{}\n", to_string(prediction.plan),
                     prediction.step.value, prediction.exposed.value, prediction.bytes,
                     prediction.updated_fraction, prediction.efficiency,
                     advice.speed_up(prediction), speed_up.low, speed_up.high,
                     memory_of(prediction, advice, options));
}

constexpr const char* kCsvColumns =
    "plan,step_seconds,exposed_seconds,bytes_per_step,updated_fraction,efficiency,speed_up,"
    "speed_up_low,speed_up_high,memory_bytes_per_parameter";

std::string range_text(const Range& range) {
  const std::string low = fmt::format("{:.2g}x", range.low);
  const std::string high = fmt::format("{:.2g}x", range.high);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

struct Row {
  std::string step, exposed, sent, memory, efficiency, speed_up, plan;
};
std::string text_of(const Row& row) {
  return fmt::format("{:>9}  {:>9}  {:>10}  {:>8}  {:>10}  {:>14}  {}\n", row.step, row.exposed,
                     row.sent, row.memory, row.efficiency, row.speed_up, row.plan);
}

Row row_of(const Prediction& prediction, const Advice& advice, const Options& options) {
  std::size_t parameters = 0;
  for (const model::Bucket& bucket : options.inputs.buckets) parameters += bucket.length;
  const bool plain = &prediction == &advice.plain;
  return {.step = pliant::to_string(prediction.step),
          .exposed = pliant::to_string(prediction.exposed),
          .sent = bytes_text(prediction.bytes),
          .memory = plain ? "0"
                          : bytes_text(memory_of(prediction, advice, options) *
                                       static_cast<double>(parameters)),
          .efficiency = fmt::format("{:.2f}", prediction.efficiency),
          .speed_up = range_text(advice.speed_up_range(prediction)),
          .plan = plain ? "plain DDP" : to_string(prediction.plan)};
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

std::string islands_text(const Islands& islands, const Options& options) {
  return fmt::format(
      "{} islands of {} ranks: each rank exchanges a part of {} parameters, and {} ranks share an "
      "island's link.\nA step of an island alone takes {}. Plain DDP is over all {} ranks.\n",
      islands.count, islands.ranks, options.inputs.buckets.front().length, islands.ranks,
      pliant::to_string(options.inputs.compute), islands.count * islands.ranks);
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

constexpr double kLeastInRange = 0.1;  // a worth; below that nobody would train

// What a loop with a fixed number of steps should know.
std::string steps_text(const Advice& advice, const Options& options) {
  model::EfficiencyOptions at_end = options.inputs.efficiency;
  at_end.at_end = true;
  const Prediction& best = advice.best;
  const double worth =
      model::efficiency(best.plan, best.updated_fraction, options.inputs.adam, at_end);
  if (worth >= 1) return "";
  const double speed_up = advice.plain.step / best.step;
  const double most = 1 - kCostInTrials.low * (1 - worth);
  const double least = std::max(1 - kCostInTrials.high * (1 - worth), kLeastInRange);
  return fmt::format(
      "\nTrain {:.3g} to {:.3g}x as many steps to end where plain DDP ends (assumed); that is {} "
      "sooner.\n",
      1 / most, 1 / least, range_text({speed_up * least, speed_up * most}));
}

std::string table(const Advice& advice, const Options& options,
                  std::optional<BytesPerSecond> break_even) {
  std::string text = verdict(advice) + "\n";
  if (break_even) {
    text += fmt::format("Plain DDP is within 2 % from {} on{}.\n", pliant::to_string(*break_even),
                        all_equal(options.inputs.world.links)
                            ? ""
                            : " (the slowest link; the others scaled alike)");
  } else {
    text += "At this latency that holds for every bandwidth from 1 Mbit/s to 1 Tbit/s.\n";
  }
  if (options.log) text += log_text(*options.log, advice, options);
  if (options.islands) text += islands_text(*options.islands, options);
  text += "\n" + text_of({.step = "step",
                          .exposed = "exposed",
                          .sent = "sent/step",
                          .memory = "memory",
                          .efficiency = "efficiency",
                          .speed_up = "speed-up",
                          .plan = "plan"});
  for (const Prediction& each : advice.schemes) text += text_of(row_of(each, advice, options));
  text += text_of(row_of(advice.plain, advice, options));
  text += steps_text(advice, options);
  return text +
         fmt::format(
             "\nmemory: what pliant adds on each rank, about.\n"
             "efficiency: what a step is worth, in steps of plain DDP. It is assumed, not measured "
             "on your model: trials with three\n  small models (docs/model.md) had {:g} to {:g} "
             "times what is said here; below {:g} there were none.\n"
             "speed-up: progress per second over plain DDP's, for that range. {} plans "
             "predicted.\n",
             kEfficiencyInTrials.low, kEfficiencyInTrials.high, kLeastTried, advice.candidates);
}

}  // namespace

std::string verdict(const Advice& advice) {
  if (advice.speed_up(advice.best) <= kWorthIt) return "do not compress: plain DDP is within 2 %";
  const plan::Plan& plan = advice.best.plan;
  const bool dense = plan.scheme == plan::Scheme::kDense;
  const bool updates = plan.kind == plan::Kind::kUpdates;
  const Range range = advice.speed_up_range(advice.best);
  const std::string worth =
      fmt::format("{} plain DDP{}", range_text(range), range.low == range.high ? "" : " (assumed)");
  if (dense && plan.values == plan::ValueCode::kF32)
    return fmt::format("send everything, but in another way: {}, {}", to_string(plan), worth);
  const std::string what = dense
                               ? fmt::format("all entries as {}", to_string(plan.values))
                               : fmt::format("{} at {}",
                                             plan.scheme == plan::Scheme::kShared
                                                 ? fmt::format("shared/{}", to_string(plan.leader))
                                                 : std::string(to_string(plan.scheme)),
                                             plan::density_text(plan.density));
  return fmt::format(
      "compress: {}{}, {}", what,
      updates ? fmt::format(" (updates every {}, {} late)", plan.every, plan.late) : "", worth);
}

std::string report(const Options& options, const Advice& advice,
                   std::optional<BytesPerSecond> break_even) {
  if (options.form == Form::kTable) return table(advice, options, break_even);
  if (options.form == Form::kCsv) {
    std::string text = std::string(kCsvColumns) + "\n";
    for (const Prediction& each : advice.schemes) text += csv_line(each, advice, options);
    return text + csv_line(advice.plain, advice, options);
  }
  json document = {{"pliant_plan", 1},
                   {"verdict", verdict(advice)},
                   {"candidates", advice.candidates},
                   {"best", as_json(advice.best, advice, options)},
                   {"plain", as_json(advice.plain, advice, options)},
                   {"schemes", json::array()}};
  document["break_even_bits_per_second"] =
      break_even ? json(bits_per_second(*break_even)) : json(nullptr);
  if (options.log) document["log"] = log_json(*options.log, advice);
  if (options.islands) {
    document["islands"] = {{"count", options.islands->count},
                           {"ranks", options.islands->ranks},
                           {"part_parameters", options.inputs.buckets.front().length},
                           {"island_step_seconds", options.inputs.compute.value}};
  }
  for (const Prediction& each : advice.schemes)
    document["schemes"].push_back(as_json(each, advice, options));
  return document.dump(2) + "\n";
}

std::string report_sweep(const Options& options, const std::vector<Swept>& rows) {
  if (options.form == Form::kJson) {
    json document = {{"pliant_plan", 1}, {"sweep", json::array()}};
    for (const auto& [link, advice] : rows) {
      json entry = as_json(advice.best, advice, options);
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
                          csv_line(advice.best, advice, options));
    return text;
  }
  std::string text = fmt::format("{:>12}  {:>8}  {:>9}  {:>9}  {:>14}  {}\n", "bandwidth",
                                 "latency", "plain DDP", "step", "speed-up", "best plan");
  for (const auto& [link, advice] : rows) {
    text +=
        fmt::format("{:>12}  {:>8}  {:>9}  {:>9}  {:>14}  {}\n", pliant::to_string(bandwidth(link)),
                    pliant::to_string(link.latency), pliant::to_string(advice.plain.step),
                    pliant::to_string(advice.best.step),
                    range_text(advice.speed_up_range(advice.best)), to_string(advice.best.plan));
  }
  text += "\nspeed-up: over plain DDP, with an assumed efficiency.\n";
  return text;
}

}  // namespace pliant::what_if
