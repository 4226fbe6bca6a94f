// SPDX-License-Identifier: MIT
#include "pliant/engine/opening.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "pliant/agree/handshake.h"
#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/common/version.h"

namespace pliant::engine {
using namespace runlog;
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

std::unique_ptr<RunLog> open_log(const Options& options, comm::Communicator& control) {
  std::string objection = options.objection;
  std::unique_ptr<RunLog> log;
  try {
    const auto path = runlog::log_path(options.run_log, control.rank());
    if (path) log = std::make_unique<RunLog>(*path, [&control] { return control.now(); });
  } catch (const IoError& error) {
    objection = error.what();
  }
  agree::go_on_unless(control, objection, options.deadline);
  return log;
}

LogHeader header_of(const Options& options, const std::vector<Parameter>& parameters,
                    const plan::CostTable& costs) {
  const RunLogOptions& wanted = options.run_log;
  LogHeader header{
      .name = wanted.name,
      .versions = {{"pliant", std::string(version())}},
      .command = wanted.command,
      .layout = layout_of(parameters),
      .options = {{"plan", to_string(options.pins)},
                  {"policy", std::string(to_string(options.control.policy))},
                  {"deadline", options.deadline ? to_string(*options.deadline) : "none"},
                  {"clip_norm", fmt::format("{}", options.clip_norm)},
                  {"check_every", std::to_string(options.check_every)},
                  {"warm_up",
                   fmt::format("{} {}", to_string(options.warm_up), options.warm_up_steps)}},
      .costs = one_line(plan::to_text(costs))};
  for (const Parameter& parameter : parameters) header.parameters += parameter.size;
  if (options.updates) header.optimizer = options.adam ? "adam" : "sgd";
  header.versions.insert(header.versions.end(), wanted.versions.begin(), wanted.versions.end());
  header.options.insert(header.options.end(), wanted.options.begin(), wanted.options.end());
  return header;
}

}  // namespace pliant::engine
