// SPDX-License-Identifier: MIT
#include "tools/pliant-plan/options.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "pliant/compress/measure.h"

namespace pliant::what_if {
namespace {

// Buckets as DDP cuts them: 25 MiB, the last layers' gradients first.
constexpr std::size_t kBucketLength = 25U * 1024 * 1024 / sizeof(float);
// Backward takes about two thirds of a step, and buckets become ready evenly during it.
constexpr double kForwardShare = 1.0 / 3;
constexpr int kMostRanks = 4096;

struct Typed {
  std::string params, link, links, compute, plan = "auto", policy = "auto", costs = "here";
  int ranks = 0;
  int lanes = 1;
  double p = -1;
  bool adam = false, gradients_only = false, json = false, csv = false, version = false;
};

void declare(CLI::App& app, Options& options, Typed& typed) {
  app.add_option("--params", typed.params, "parameters of the model, as in 25.6M; K, M and G are decimal");
  app.add_option("--ranks", typed.ranks, "how many workers");
  app.add_option("--link", typed.link, "everybody's network, as in 1gbit,1ms");
  app.add_option("--links", typed.links,
                 "a TOML file with one [[host]] each: link = \"1gbit,1ms\", ranks = 1; instead of --link and --ranks");
  app.add_option("--compute", typed.compute, "a step's own work, as in 120ms");
  app.add_option("--plan", typed.plan, "what is pinned, as in 'gradients union density=1%' [auto]");
  app.add_option("--policy", typed.policy, "auto or knee [auto]");
  app.add_option("--p", typed.p, "the dial between speed (0) and accuracy (1) [0.1 for updates, 0.2 for gradients]");
  app.add_option("--lanes", typed.lanes, "exchanges at a time; 0: nothing overlaps [1]");
  app.add_option("--costs", typed.costs,
                 "what coding costs: 'here' measures this machine, 'none' leaves it out, or a file of costs [here]");
  app.add_flag("--adam", typed.adam, "the optimizer is Adam or one of its kind");
  app.add_flag("--gradients-only", typed.gradients_only, "the optimizer is not at hand: no updates");
  app.add_flag("--sweep", options.sweep, "the best plan over many links instead of one");
  app.add_flag("--json", typed.json, "print one JSON document");
  app.add_flag("--csv", typed.csv, "print comma-separated values");
  app.add_flag("--version", typed.version, "print the version and leave");
}

void refuse_strangers(const CLI::App& app) {
  const auto strangers = app.remaining();
  if (strangers.empty()) return;
  const std::string name = strangers.front().substr(0, strangers.front().find('='));
  if (!name.starts_with("-")) throw InputError(fmt::format("'{}' is not an option; options start with '-' (see --help)", name));
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& long_name : option->get_lnames()) known.push_back("--" + long_name);
  }
  if (name == "--log") throw InputError("--log: there is no run log to read yet; give --params, --link and --compute");
  const auto near = nearest_word(name, known);
  throw InputError(fmt::format("unknown option '{}'{}", name, near ? fmt::format(" (did you mean '{}'?)", *near) : " (see --help)"));
}

std::string slurp(const std::string& path, const std::string& option) {
  std::ifstream in(path);
  if (!in) throw InputError(fmt::format("{}: cannot read '{}'", option, path));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void need(bool there, const char* option, const char* example) {
  if (!there) throw InputError(fmt::format("{}: it is needed, as in {} {}", option, option, example));
}

void understand_world(const Typed& typed, Options& options) {
  if (!typed.links.empty()) {
    if (!typed.link.empty() || typed.ranks != 0) throw InputError("--links: it says all that --link and --ranks would; leave those out");
    if (options.sweep) throw InputError("--sweep: it goes over equal links; leave --links out");
    options.inputs.world = parse_links(typed.links);
    return;
  }
  need(typed.ranks != 0, "--ranks", "8");
  if (typed.ranks < 1 || typed.ranks > kMostRanks)
    throw InputError(fmt::format("--ranks: {} is not between 1 and {}", typed.ranks, kMostRanks));
  if (options.sweep && !typed.link.empty()) throw InputError("--sweep: it goes over many links; leave --link out");
  if (!options.sweep) need(!typed.link.empty(), "--link", "1gbit,1ms");
  options.inputs.world = plan::uniform_world(typed.ranks, options.sweep ? plan::Link{} : plan::parse_link(typed.link, "--link"));
}

void understand_model(const Typed& typed, Options& options) {
  need(!typed.params.empty(), "--params", "25.6M");
  need(!typed.compute.empty(), "--compute", "120ms");
  const std::size_t length = parse_count(typed.params, "--params");
  const Seconds compute = parse_duration(typed.compute, "--compute");
  if (compute.value <= 0) throw InputError(fmt::format("--compute: '{}' is no time at all", typed.compute));
  options.inputs.compute = compute;
  const std::size_t buckets = std::max<std::size_t>(1, (length + kBucketLength - 1) / kBucketLength);
  for (std::size_t b = 1; b <= buckets; ++b) {
    const double share = static_cast<double>(b) / static_cast<double>(buckets);
    options.inputs.buckets.push_back(
        {length * b / buckets - length * (b - 1) / buckets, (kForwardShare + (1 - kForwardShare) * share) * compute});
  }
}

void understand(const Typed& typed, Options& options) {
  understand_world(typed, options);
  understand_model(typed, options);
  options.inputs.adam = typed.adam;
  if (typed.lanes < 0 || typed.lanes > 64) throw InputError(fmt::format("--lanes: {} is not between 0 and 64", typed.lanes));
  options.inputs.lanes = typed.lanes;
  if (typed.p != -1) {
    if (!(typed.p >= 0 && typed.p <= 1)) throw InputError(fmt::format("--p: {} is not between 0 and 1", typed.p));
    options.inputs.efficiency.p_updates = options.inputs.efficiency.p_gradients = typed.p;
  }
  if (typed.policy != "auto" && typed.policy != "knee")
    throw InputError(fmt::format("--policy: '{}' is neither 'auto' nor 'knee'", typed.policy));
  options.control.policy = typed.policy == "knee" ? control::Policy::kKnee : control::Policy::kAuto;
  options.control.candidates = {.pins = plan::parse_pins(typed.plan, "--plan"), .updates = !typed.gradients_only};
  if (typed.gradients_only && options.control.candidates.pins.kind == plan::Kind::kUpdates) {
    throw InputError("--gradients-only: the plan is pinned to updates");
  }
  if (typed.costs == "here") options.inputs.costs = compress::measure_costs();
  if (typed.costs != "here" && typed.costs != "none") options.inputs.costs = plan::parse_cost_table(slurp(typed.costs, "--costs"));
  if (typed.json && typed.csv) throw InputError("--json: it cannot go with --csv");
  options.form = typed.json ? Form::kJson : typed.csv ? Form::kCsv : Form::kTable;
}

}  // namespace

std::size_t parse_count(const std::string& text, const std::string& option) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const auto prefix = unit.size() == 1 ? std::string_view("KMG").find(unit[0]) : std::string_view::npos;
  if (error != std::errc() || (!unit.empty() && prefix == std::string_view::npos)) {
    throw InputError(fmt::format("{}: '{}' is not a number of parameters, as in 25.6M", option, text));
  }
  if (!unit.empty()) value *= std::pow(1000.0, static_cast<double>(prefix) + 1);
  if (!(value >= 1) || value > 1e12) throw InputError(fmt::format("{}: '{}' is not between 1 and 1000G", option, text));
  return static_cast<std::size_t>(std::llround(value));
}

plan::World parse_links(const std::string& path) {
  toml::table file;
  try {
    file = toml::parse(slurp(path, "--links"), path);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("--links: {}, line {}: {}", path, error.source().begin.line, error.description()));
  }
  for (const auto& [key, value] : file) {
    if (key != "host")
      throw InputError(fmt::format("--links: {}: '{}' is not known; there are [[host]] only", path, std::string_view(key)));
  }
  const toml::array* hosts = file["host"].as_array();
  if (hosts == nullptr || hosts->empty()) throw InputError(fmt::format("--links: {}: there is no [[host]]", path));
  plan::World world{.size = 0};
  for (const toml::node& node : *hosts) {
    const toml::table* host = node.as_table();
    if (host == nullptr) throw InputError(fmt::format("--links: {}: a host is a table", path));
    for (const auto& [key, value] : *host) {
      const std::vector<std::string> known = {"link", "ranks"};
      if (key != "link" && key != "ranks") {
        throw InputError(
            fmt::format("--links: {}: a host has no '{}'{}", path, std::string_view(key), suggestion(std::string_view(key), known)));
      }
    }
    const auto link = (*host)["link"].value<std::string>();
    const std::int64_t ranks = (*host)["ranks"].value_or(std::int64_t{1});
    if (!link) throw InputError(fmt::format("--links: {}: a host has no link, as in link = \"1gbit,1ms\"", path));
    if (ranks < 1 || world.size + ranks > kMostRanks) throw InputError(fmt::format("--links: {}: {} ranks on a host", path, ranks));
    world.size += static_cast<int>(ranks);
    world.links.resize(static_cast<std::size_t>(world.size), plan::parse_link(*link, "--links: " + path));
  }
  return world;
}

Options parse_options(int argc, const char* const* argv) {
  Options options;
  Typed typed;
  CLI::App app(
      "What would a step take? Predicts every plan for a model and a network, and says whether compressing pays.\n"
      "  pliant-plan --params 25.6M --ranks 8 --link 1gbit,1ms --compute 120ms",
      "pliant-plan");
  app.allow_extras();
  declare(app, options, typed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    options.say = app.help();
    return options;
  } catch (const CLI::ParseError& error) {
    throw InputError(error.what());
  }
  refuse_strangers(app);
  if (typed.version) {
    options.say = "pliant-plan " PLIANT_VERSION "\n";
    return options;
  }
  understand(typed, options);
  return options;
}

}  // namespace pliant::what_if
