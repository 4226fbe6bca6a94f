// SPDX-License-Identifier: MIT
#include "pliant/engine/opening.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/common/version.h"
#include "pliant/engine/dials.h"
#include "pliant/engine/parts.h"

namespace pliant::engine {
namespace {

std::uint64_t layout_of(const std::vector<Parameter>& parameters) {
  std::string text;
  for (const Parameter& parameter : parameters)
    text += fmt::format("{}\n{}\n{}\n", parameter.name, parameter.size, parameter.shape);
  return pliant::hash(std::string_view(text));
}

std::string_view to_string(WarmUp warm_up) {
  constexpr std::array<std::string_view, 3> names = {"none", "dense", "ramp"};
  return names.at(static_cast<std::size_t>(warm_up));
}

std::string one_line(std::string text) {
  std::erase(text, '\n');
  return text;
}

}  // namespace

agree::Facts facts_of(const Options& options) {
  agree::Facts facts = {{"the version of pliant", std::string(version())}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  facts.insert(
      facts.end(),
      {{"plan", to_string(options.pins)},
       {"whether the optimizer is attached", options.updates ? "yes" : "no"},
       {"check_every", std::to_string(options.check_every)},
       {"warm_up", fmt::format("{} {}", to_string(options.warm_up), options.warm_up_steps)},
       {"policy", std::string(to_string(options.control.policy))},
       {"goal", std::string(to_string(options.control.goal))},
       {"the kind of optimizer", options.adam ? "Adam-like" : "SGD-like"},
       {"whether plans of scheme shared are possible", options.shared ? "yes" : "no"},
       {"clip_norm", fmt::format("{}", options.clip_norm)}});
  for (const Dial& dial : dials()) facts.emplace_back("dial " + dial.name, dial.value(options));
  return facts;
}

agree::Facts facts_of(const std::vector<Parameter>& parameters,
                      const std::vector<Parameter>& buffers) {
  agree::Facts facts = {{"the number of parameters", std::to_string(parameters.size())}};
  const auto tell = [&facts](std::string_view what, const std::vector<Parameter>& tensors) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      facts.emplace_back(fmt::format("{} {}", what, t),
                         fmt::format("{} ({} entries{}{})", tensors[t].name, tensors[t].size,
                                     tensors[t].shape.empty() ? "" : ", ", tensors[t].shape));
    }
  };
  tell("parameter", parameters);
  facts.emplace_back("the number of buffers", std::to_string(buffers.size()));
  tell("buffer", buffers);
  return facts;
}

std::unique_ptr<runlog::RunLog> open_log(const Options& options, comm::Communicator& control) {
  std::string objection = options.objection;
  std::unique_ptr<runlog::RunLog> log;
  try {
    const auto path = runlog::log_path(options.run_log, control.rank());
    if (path) log = std::make_unique<runlog::RunLog>(*path, [&control] { return control.now(); });
  } catch (const IoError& error) {
    objection = error.what();
  }
  agree::go_on_unless(control, objection, options.deadline);
  return log;
}

runlog::LogHeader header_of(const Parts& parts) {
  const Options& options = parts.options;
  const runlog::Options& wanted = options.run_log;
  const Services& services = parts.services;
  runlog::LogHeader header{
      .name = wanted.name,
      .versions = {{"pliant", std::string(version())}},
      .command = wanted.command,
      .rank = services.rank(),
      .world = services.everybody(),
      .lanes = services.has_threads() ? static_cast<int>(services.lanes.size()) : 0,
      .layout = layout_of(parts.parameters),
      .options = {{"plan", to_string(options.pins)},
                  {"policy", std::string(to_string(options.control.policy))},
                  {"goal", std::string(to_string(options.control.goal))},
                  {"deadline", options.deadline ? to_string(*options.deadline) : "none"},
                  {"clip_norm", fmt::format("{}", options.clip_norm)},
                  {"check_every", std::to_string(options.check_every)},
                  {"warm_up",
                   fmt::format("{} {}", to_string(options.warm_up), options.warm_up_steps)}},
      .costs = one_line(plan::to_text(parts.costs)),
      .buckets = parts.gradients.groups().unit_lengths()};
  for (const Parameter& parameter : parts.parameters) header.parameters += parameter.size;
  if (options.updates) header.optimizer = options.adam ? "adam" : "sgd";
  header.versions.insert(header.versions.end(), wanted.versions.begin(), wanted.versions.end());
  header.options.insert(header.options.end(), wanted.options.begin(), wanted.options.end());
  return header;
}

}  // namespace pliant::engine
