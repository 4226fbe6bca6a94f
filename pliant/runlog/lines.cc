// SPDX-License-Identifier: MIT
#include "pliant/runlog/lines.h"

#include <limits>

namespace pliant::runlog {
namespace {

std::string json_of(const std::optional<plan::Link>& link) {
  if (!link) return "null";
  const double rate = link->seconds_per_byte > 0 ? 8 / link->seconds_per_byte
                                                 : std::numeric_limits<double>::infinity();
  JsonObject out;
  out.put("latency", link->latency.value)
      .put("latency_sd", link->latency_uncertainty.value)
      .put("rate", rate);
  // Of the inverse, carried over: relative uncertainties are the same.
  out.put("rate_sd", rate * link->seconds_per_byte_uncertainty / link->seconds_per_byte);
  return std::move(out).text();
}

std::string json_of(const LogExchange& exchange, Seconds began) {
  JsonObject out;
  out.put("group", exchange.group).put("lane", exchange.lane);
  out.time("begin", (exchange.begin - began).value).time("enter", (exchange.enter - began).value);
  out.time("leave", (exchange.leave - began).value).time("end", (exchange.end - began).value);
  out.put("bytes", exchange.bytes.value).put("entries", exchange.entries);
  return std::move(out).text();
}

}  // namespace

void put(JsonObject& out, const LogStep& step, Seconds began) {
  out.put("step", step.step)
      .put("plan", step.plan)
      .put("epoch", step.epoch)
      .put("round", step.round);
  out.put("whole", step.whole)
      .put("compute", step.compute)
      .put("exposed", step.exposed)
      .put("coding", step.coding);
  out.put("predicted", step.predicted).put("seen", step.seen);
  out.put("bytes", step.bytes.value)
      .put("control_bytes", step.control_bytes.value)
      .raw("link", json_of(step.link));
  out.put("dense_step", step.dense_step)
      .put("worth", step.worth)
      .put("updated", step.updated)
      .put("gain", step.gain)
      .put("residual_ratio", step.residual_ratio);
  out.put("void", step.is_void).list("exchanges", step.exchanges, [&](const LogExchange& exchange) {
    return json_of(exchange, began);
  });
}

std::string to_json(const LogSummary& summary) {
  JsonObject out;
  out.put("plan", summary.plan)
      .put("steps", summary.steps)
      .put("exchanges", summary.exchanges)
      .put("bytes", summary.bytes.value);
  out.put("control_bytes", summary.control_bytes.value).put("voids", summary.voids);
  return std::move(out).text();
}

}  // namespace pliant::runlog
