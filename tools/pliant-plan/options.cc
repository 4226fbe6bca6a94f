// SPDX-License-Identifier: MIT
#include "tools/pliant-plan/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "pliant/common/version.h"
#include "pliant/compress/measure.h"
#include "pliant/engine/dials.h"
#include "tools/command_line/command_line.h"
#include "tools/pliant-plan/advice.h"
#include "tools/pliant-plan/models.h"

namespace pliant::what_if {
namespace {

// Buckets as DDP cuts them, the last layers' gradients first: one of 1 MiB, which leaves early, and
// then of 25 MiB.
constexpr std::size_t kFirstBucketLength = std::size_t{1024} * 1024 / sizeof(float);
constexpr std::size_t kBucketLength = 25 * kFirstBucketLength;
// Backward takes about two thirds of a step, and buckets become ready evenly during it.
constexpr double kForwardShare = 1.0 / 3;
constexpr int kMostRanks = 4096;

struct Typed {
  std::string params, model, link, links, islands, inside, log, compute, costs,
      plan = "auto", policy = "auto", goal = "steps";
  std::optional<int> ranks, lanes;
  std::optional<double> p;
  bool adam = false, gradients_only = false, json = false, csv = false, version = false;
};

std::string help_of(const engine::Dial& dial) {
  return fmt::format("{} [{}]", dial.sentence, dial.value(engine::Options{}));
}

void declare(CLI::App& app, Options& options, Typed& typed) {
  app.add_option("--params", typed.params,
                 "parameters of the model, as in 25.6M; K, M and G are decimal");
  app.add_option("--model", typed.model,
                 fmt::format("a model instead of --params: {}", fmt::join(model_names(), ", ")));
  app.add_option("--ranks", typed.ranks, "how many workers");
  app.add_option("--link", typed.link, "network of all ranks, as in 1gbit,1ms");
  app.add_option("--links", typed.links,
                 "a TOML file with one [[host]] each: link = \"1gbit,1ms\", ranks = 1; instead of "
                 "--link and --ranks");
  app.add_option("--islands", typed.islands,
                 "islands x ranks of each, as in 2x4, instead of --ranks: DDP inside, updates "
                 "across; --link is then the network of an island");
  app.add_option("--inside", typed.inside,
                 "with --islands: network between the ranks of an island, as in 25gbit,20us");
  app.add_option(
      "--compute", typed.compute,
      "what a step takes without any exchange, as in 120ms: forward, backward and "
      "optimizer. To measure it, time steps of the script with one process, at the "
      "batch size of one rank; or run it once with pliant.attach(..., log=\"run.jsonl\") "
      "and give --log run.jsonl instead");
  app.add_option("--log", typed.log,
                 "take parameters, ranks, compute, network, costs and gain from a run's log; "
                 "options given beside it win");
  app.add_option("--plan", typed.plan, "what is pinned, as in 'gradients union density=1%' [auto]");
  app.add_option("--goal", typed.goal,
                 "steps: the same quality after the same steps, as fast as that allows; time: the "
                 "soonest to any loss [steps]");
  app.add_option("--policy", typed.policy, "auto or knee [auto]");
  app.add_option("--p", typed.p, help_of(engine::dial("p")));
  app.add_option("--lanes", typed.lanes,
                 "exchanges at a time; 0: nothing overlaps [1, or the log's]");
  app.add_option("--costs", typed.costs,
                 "what coding costs: 'here' measures this machine, 'none' leaves it out, or a file "
                 "of costs [here, or the log's]");
  app.add_flag("--adam", typed.adam, "the optimizer is Adam or one of its kind");
  app.add_flag("--gradients-only", typed.gradients_only, "consider plans of kind gradients only");
  app.add_flag("--sweep", options.sweep, "the best plan over many links instead of one");
  app.add_flag("--json", typed.json, "print one JSON document");
  app.add_flag("--csv", typed.csv, "print comma-separated values");
  app.add_flag("--version", typed.version, "print the version and exit");
}

void need(bool there, const char* option, const char* example) {
  if (!there)
    throw InputError(fmt::format("{}: it is needed, as in {} {}", option, option, example));
}

plan::Link understand_link(const Typed& typed, const Options& options) {
  if (!typed.link.empty()) return plan::parse_link(typed.link, "--link");
  if (options.log && options.log->link) return *options.log->link;
  if (options.log)
    throw InputError(fmt::format(
        "--log: '{}' has no estimate of the network: too short a run, or one rank; give --link",
        typed.log));
  throw InputError("--link: it is needed, as in --link 1gbit,1ms");
}

// "2x4": two islands of four ranks.
Islands parse_islands(const std::string& text) {
  const std::string what = fmt::format(
      "--islands: '{}' is not islands x ranks of each, as in 2x4, from 1x1 to {} ranks in all",
      text, kMostRanks);
  const auto number = [&](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size() || value < 1 ||
        value > kMostRanks)
      throw InputError(what);
    return value;
  };
  const std::size_t cross = text.find('x');
  if (cross == std::string::npos) throw InputError(what);
  const Islands islands{.count = number(std::string_view(text).substr(0, cross)),
                        .ranks = number(std::string_view(text).substr(cross + 1))};
  if (islands.count * islands.ranks > kMostRanks) throw InputError(what);
  return islands;
}

// One across group: a rank of each island, with its share of the island's link.
void understand_islands(const Typed& typed, Options& options) {
  if (typed.ranks || !typed.links.empty())
    throw InputError("--islands: it says all that --ranks and --links would; leave those out");
  if (!typed.log.empty())
    throw InputError("--islands: a run's log describes one across group; leave --log out");
  if (options.sweep) throw InputError("--sweep: it has no islands; leave --islands out");
  if (typed.gradients_only)
    throw InputError("--gradients-only: islands exchange updates; leave --islands out");
  options.islands = parse_islands(typed.islands);
  need(!typed.link.empty(), "--link", "100mbit,20ms");
  need(!typed.inside.empty(), "--inside", "25gbit,20us");
  options.islands->inside = plan::parse_link(typed.inside, "--inside");
  plan::Link share = plan::parse_link(typed.link, "--link");
  share.seconds_per_byte *= options.islands->ranks;
  options.inputs.world = plan::uniform_world(options.islands->count, share);
}

void understand_world(const Typed& typed, Options& options) {
  if (!typed.islands.empty()) return understand_islands(typed, options);
  if (!typed.inside.empty())
    throw InputError("--inside: it goes with --islands, as in --islands 2x4");
  if (!typed.links.empty()) {
    if (!typed.link.empty() || typed.ranks)
      throw InputError("--links: it says all that --link and --ranks would; leave those out");
    if (options.sweep) throw InputError("--sweep: it goes over equal links; leave --links out");
    options.inputs.world = parse_links(typed.links);
    return;
  }
  need(typed.ranks || options.log, "--ranks", "8");
  const int ranks = typed.ranks ? *typed.ranks : options.log->ranks;
  if (ranks < 1 || ranks > kMostRanks)
    throw InputError(fmt::format("--ranks: {} is not between 1 and {}", ranks, kMostRanks));
  if (options.sweep && !typed.link.empty())
    throw InputError("--sweep: it goes over many links; leave --link out");
  options.inputs.world =
      plan::uniform_world(ranks, options.sweep ? plan::Link{} : understand_link(typed, options));
}

// Gradients become ready evenly during backward, in the order of their buckets.
void set_buckets(const std::vector<std::size_t>& lengths, model::Inputs& inputs) {
  const auto total =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}));
  double ready = 0;
  for (const std::size_t length : lengths) {
    ready += static_cast<double>(length);
    inputs.buckets.push_back(
        {length, (kForwardShare + (1 - kForwardShare) * ready / total) * inputs.compute});
  }
}

std::vector<std::size_t> cut_as_ddp_does(std::size_t length) {
  std::vector<std::size_t> lengths = {std::min(length, kFirstBucketLength)};
  for (std::size_t rest = length - lengths.front(); rest > 0; rest -= lengths.back())
    lengths.push_back(std::min(rest, kBucketLength));
  return lengths;
}

std::optional<std::size_t> parameters(const Typed& typed) {
  if (!typed.model.empty() && !typed.params.empty())
    throw InputError("--model: it says what --params would; leave one out");
  if (!typed.model.empty()) return parameters_of(typed.model);
  if (typed.params.empty()) return std::nullopt;
  if (std::ranges::count(model_names(), typed.params) > 0)
    throw InputError(fmt::format("--params: '{0}' is a model; say --model {0}", typed.params));
  return parse_count(typed.params, "--params");
}

void understand_model(const Typed& typed, Options& options) {
  const auto typed_length = parameters(typed);
  if (!typed_length && !options.log)
    throw InputError("--params: it is needed, as in --params 25.6M or --model resnet50");
  if (typed.compute.empty() && !options.log) {
    throw InputError(
        "--compute: it is needed, as in --compute 120ms: what a step takes without any exchange. "
        "Time steps of your script with one process, or run it once with log= and give --log");
  }
  const Seconds compute =
      typed.compute.empty() ? options.log->compute : parse_duration(typed.compute, "--compute");
  if (compute.value <= 0)
    throw InputError(fmt::format("--compute: '{}' is no time at all", typed.compute));
  options.inputs.compute = compute;
  // A run of kind updates exchanged the whole model as one; gradients would come in DDP's buckets.
  const bool as_logged = !typed_length && options.log->buckets.size() > 1;
  const std::size_t length = typed_length ? *typed_length : options.log->parameters;
  set_buckets(as_logged ? options.log->buckets : cut_as_ddp_does(length), options.inputs);
}

void understand_costs(const Typed& typed, Options& options) {
  if (typed.costs.empty() && options.log) {
    options.inputs.costs = options.log->costs;
  } else if (typed.costs.empty() || typed.costs == "here") {
    options.inputs.costs = compress::measure_costs();
  } else if (typed.costs != "none") {
    try {
      options.inputs.costs =
          plan::parse_cost_table(command_line::read_file(typed.costs, "--costs"));
    } catch (const InputError& error) {
      const std::string why = error.what();
      throw InputError(
          why.starts_with("--costs") ? why : fmt::format("--costs: '{}': {}", typed.costs, why));
    }
  }
}

// What one across group sees: a part of the model, and steps in which DDP averages inside.
void divide_into_islands(Options& options) {
  Islands& islands = *options.islands;
  model::Inputs& inputs = options.inputs;
  plan::Pins& pins = options.control.candidates.pins;
  if (pins.kind == plan::Kind::kGradients)
    throw InputError("--plan: islands exchange updates, and the plan is pinned to gradients");
  pins.kind = plan::Kind::kUpdates;
  islands.buckets = inputs.buckets;
  islands.compute = inputs.compute;
  inputs.compute = step_inside(inputs, islands);
  std::size_t length = 0;
  for (const model::Bucket& bucket : islands.buckets) length += bucket.length;
  const auto ranks = static_cast<std::size_t>(islands.ranks);
  inputs.buckets = {{.length = (length + ranks - 1) / ranks, .ready = inputs.compute}};
}

void understand(const Typed& typed, Options& options) {
  if (!typed.log.empty()) options.log = read_run_log(typed.log);
  understand_world(typed, options);
  understand_model(typed, options);
  const int lanes = typed.lanes ? *typed.lanes : options.log ? options.log->lanes : 1;
  if (lanes < 0 || lanes > 64)
    throw InputError(fmt::format("--lanes: {} is not between 0 and 64", lanes));
  options.inputs.lanes = lanes;
  options.inputs.adam = typed.adam || (options.log && options.log->adam);
  if (options.log) {
    options.as_logged =
        !options.sweep && !typed.ranks && !typed.lanes &&
        (typed.params + typed.model + typed.compute + typed.link + typed.links + typed.costs)
            .empty();
    options.inputs.overlap = options.log->overlap;
    options.inputs.gain = options.log->gain;
  }
  if (typed.p) {
    engine::Options turned;
    try {
      engine::turn_dial(turned, "p", *typed.p);
    } catch (const InputError&) {
      throw InputError(
          fmt::format("--p: {} is not in the range {}", *typed.p, engine::dial("p").range()));
    }
    options.inputs.efficiency = turned.efficiency;
  }
  if (typed.policy != "auto" && typed.policy != "knee")
    throw InputError(fmt::format("--policy: '{}' is neither 'auto' nor 'knee'", typed.policy));
  options.control.policy = typed.policy == "knee" ? control::Policy::kKnee : control::Policy::kAuto;
  if (typed.goal != "steps" && typed.goal != "time")
    throw InputError(fmt::format("--goal: '{}' is neither 'steps' nor 'time'", typed.goal));
  options.control.goal = engine::parse_goal(typed.goal);
  options.inputs.least_worth = control::least_worth(options.control);
  options.inputs.efficiency.at_end = options.inputs.least_worth > 0;
  const plan::Pins pins = plan::parse_pins(typed.plan, "--plan");
  options.control.candidates = {.pins = pins,
                                .updates = !typed.gradients_only,
                                // Plain DDP is a line of its own.
                                .backend_all_reduce = pins.reduce == plan::AllReduce::kBackend};
  if (typed.gradients_only && options.control.candidates.pins.kind == plan::Kind::kUpdates) {
    throw InputError("--gradients-only: the plan is pinned to updates");
  }
  if (typed.json && typed.csv) throw InputError("--json: it cannot go with --csv");
  understand_costs(typed, options);
  if (options.islands) divide_into_islands(options);
  options.form = typed.json ? Form::kJson : typed.csv ? Form::kCsv : Form::kTable;
}

}  // namespace

std::size_t parse_count(const std::string& text, const std::string& option) {
  const double value = command_line::parse_count(text, option, "parameters");
  if (!(value >= 1) || value > 1e12)
    throw InputError(fmt::format("{}: '{}' is not between 1 and 1000G", option, text));
  return static_cast<std::size_t>(std::llround(value));
}

plan::World parse_links(const std::string& path) {
  toml::table file;
  try {
    file = toml::parse(command_line::read_file(path, "--links"), path);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("--links: {}, line {}: {}", path, error.source().begin.line,
                                 error.description()));
  }
  for (const auto& [key, value] : file) {
    if (key != "host")
      throw InputError(fmt::format("--links: {}: '{}' is not known; there are [[host]] only", path,
                                   std::string_view(key)));
  }
  const toml::array* hosts = file["host"].as_array();
  if (hosts == nullptr || hosts->empty())
    throw InputError(fmt::format("--links: {}: there is no [[host]]", path));
  plan::World world{.size = 0};
  for (const toml::node& node : *hosts) {
    const toml::table* host = node.as_table();
    if (host == nullptr) throw InputError(fmt::format("--links: {}: a host is a table", path));
    for (const auto& [key, value] : *host) {
      const std::vector<std::string> known = {"link", "ranks"};
      if (key != "link" && key != "ranks") {
        throw InputError(fmt::format("--links: {}: a host has no '{}'{}", path,
                                     std::string_view(key),
                                     suggestion(std::string_view(key), known)));
      }
    }
    const auto link = (*host)["link"].value<std::string>();
    const std::int64_t ranks = (*host)["ranks"].value_or(std::int64_t{1});
    if (!link)
      throw InputError(
          fmt::format("--links: {}: a host has no link, as in link = \"1gbit,1ms\"", path));
    if (ranks < 1 || world.size + ranks > kMostRanks)
      throw InputError(fmt::format("--links: {}: {} ranks on a host", path, ranks));
    world.size += static_cast<int>(ranks);
    world.links.resize(static_cast<std::size_t>(world.size),
                       plan::parse_link(*link, "--links: " + path));
  }
  return world;
}

Options parse_options(int argc, const char* const* argv) {
  Options options;
  Typed typed;
  CLI::App app(
      "What would a step take? Predicts every plan for a model and a network, and says whether "
      "compressing pays.\n"
      "  pliant-plan --params 25.6M --ranks 8 --link 1gbit,1ms --compute 120ms",
      "pliant-plan");
  declare(app, options, typed);
  if (const auto help = command_line::read(app, argc, argv)) {
    options.say = *help;
    return options;
  }
  if (typed.version) {
    options.say = fmt::format("pliant-plan {}\n", version());
    return options;
  }
  understand(typed, options);
  return options;
}

}  // namespace pliant::what_if
