// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/options.h"

#undef exit  // a macro of SimGrid's compiler wrapper, but a member of CLI::App
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ranges>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "pliant/common/version.h"
#include "pliant/plan/density.h"
#include "tools/command_line/command_line.h"

namespace pliant::bench {
namespace {

constexpr std::array kCollectives = {
    schedule::Collective::kAllReduce, schedule::Collective::kReduceScatter,
    schedule::Collective::kAllGather, schedule::Collective::kBroadcast};

// The largest vector: counts of MPI are ints, and a message of whole vectors must fit.
constexpr double kLargestBytes = 1024.0 * 1024 * 1024;

// What is typed, before it is understood.
struct Typed {
  std::string min_bytes, max_bytes, link, deadline = "60s", segments = "auto", reference = "auto";
  std::vector<std::string> collectives;
  std::vector<std::string> plans, schemes, densities, values, indices, counts;
  bool version = false;
};

void declare(CLI::App& app, Options& options, Typed& typed) {
  app.add_option("-b,--minbytes", typed.min_bytes, "smallest size; K, M and G are binary [64K]");
  app.add_option("-e,--maxbytes", typed.max_bytes, "largest size [-b if that is given, or 4M]");
  app.add_option("-f,--stepfactor", options.factor, "factor from one size to the next [8]");
  app.add_option("-n,--iters", options.iterations, "timed iterations [20]")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("-w,--warmup_iters", options.warmups, "iterations before them [5]")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("-c,--check", options.checks, "checked iterations; 0 for none [1]")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--local", options.local_ranks,
                 "run N ranks as threads of this process, without MPI")
      ->check(CLI::Range(1, 1024));
  app.add_option("--collective", typed.collectives,
                 "all-reduce, reduce-scatter, all-gather, broadcast or all [all-reduce]")
      ->delimiter(',');
  app.add_option("--schedule", options.schedules,
                 "schedules by name; 'mpi' for MPI's own alone [all]")
      ->delimiter(',');
  app.add_option(
         "--scheme", typed.schemes,
         "exchanges by scheme: union, shared/star, shared/var, srs, dense; schedules by price")
      ->delimiter(',');
  app.add_option("--density", typed.densities, "of --scheme, as in 10%,1%,0.1% [1%]")
      ->delimiter(',');
  app.add_option("--values", typed.values, "of --scheme: f32, f16, int8, int4 or int2 [f16]")
      ->delimiter(',');
  app.add_option("--indices", typed.indices, "of --scheme: raw32, block16 or rice [rice]")
      ->delimiter(',');
  app.add_option(
         "--plan", typed.plans,
         "an exchange under this plan, words separated by spaces or commas; may be given again")
      ->allow_extra_args(false);
  app.add_option(
         "--params", typed.counts,
         "elements instead of -b, -e and -f for exchanges, as in 25.56M; K, M and G are decimal")
      ->delimiter(',');
  app.add_option("--root", options.root, "root of broadcasts [0]");
  app.add_option("--segments", typed.segments,
                 "segments of chain and double-tree; 'auto': the best by price [auto]");
  app.add_option("--link", typed.link,
                 "the network, as in 10gbit,50us: adds predicted times and the bandwidth bound");
  app.add_option("--reference", typed.reference,
                 "'none' leaves out MPI's own collectives (with --local: a copy in memory) [auto]");
  app.add_option("--deadline", typed.deadline,
                 "how long a message may take, as in 5s; 'none': no limit [60s]");
  app.add_flag("--json", options.json, "print one JSON document");
  app.add_option("--show", options.show, "draw the schedule of this name and exit");
  app.add_option("--ranks", options.ranks, "how many ranks --show draws [8]")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--version", typed.version, "print the version and exit");
}

schedule::Collective find_collective(const std::string& name) {
  std::vector<std::string> names;
  for (const auto collective : kCollectives) {
    if (name == to_string(collective)) return collective;
    names.emplace_back(to_string(collective));
  }
  names.emplace_back("all");
  throw InputError(
      fmt::format("--collective: no collective is called '{}'{}", name, suggestion(name, names)));
}

std::vector<schedule::Collective> understand_collectives(const std::vector<std::string>& typed) {
  if (std::ranges::find(typed, "all") != typed.end())
    return {kCollectives.begin(), kCollectives.end()};
  std::vector<schedule::Collective> collectives;
  collectives.reserve(typed.size());
  for (const auto& name : typed) collectives.push_back(find_collective(name));
  return collectives;
}

// Names of schedules are checked within the collectives asked for, except that --show looks through
// all.
void check_schedule(const Options& options, const std::string& option, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& builder : schedule::builders()) {
    const bool there =
        option == "--show" ||
        std::ranges::find(options.collectives, builder.collective) != options.collectives.end();
    if (there && builder.name == name) return;
    if (there && std::ranges::find(names, builder.name) == names.end())
      names.emplace_back(builder.name);
  }
  if (option == "--schedule" && name == "mpi") return;
  if (option == "--schedule") names.emplace_back("mpi");
  throw InputError(
      fmt::format("{}: no schedule is called '{}'{}", option, name, suggestion(name, names)));
}

int understand_segments(const std::string& text) {
  if (text == "auto") return 0;
  int segments = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), segments);
  if (error != std::errc() || end != text.data() + text.size() || segments < 1 ||
      segments > 65536) {
    throw InputError(
        fmt::format("--segments: '{}' is neither a number from 1 to 65536 nor 'auto'", text));
  }
  return segments;
}

template <typename Enum, std::size_t kCount>
Enum find_word(const std::string& word, const std::array<Enum, kCount>& all,
               const std::string& option) {
  std::vector<std::string> names;
  for (const Enum each : all) {
    if (word == to_string(each)) return each;
    names.emplace_back(to_string(each));
  }
  throw InputError(fmt::format("{}: '{}' is not known{}", option, word, suggestion(word, names)));
}

plan::Pins find_scheme(const std::string& word) {
  plan::Pins pins;
  const std::size_t slash = word.find('/');
  const std::string name = word.substr(0, slash);
  std::vector<std::string> names = {"union", "shared/star", "shared/var", "srs", "dense"};
  for (const auto scheme : plan::kSchemes) {
    if (name == to_string(scheme)) pins.scheme = scheme;
  }
  if (pins.scheme == plan::Scheme::kShared) pins.leader = plan::Leader::kStar;
  const bool known =
      pins.scheme && (slash == std::string::npos || std::ranges::find(names, word) != names.end());
  if (!known)
    throw InputError(
        fmt::format("--scheme: no scheme is called '{}'{}", word, suggestion(word, names)));
  if (word.ends_with("/var")) pins.leader = plan::Leader::kVar;
  return pins;
}

double find_density(const std::string& text) {
  try {
    return plan::parse_density(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--density: {}", error.what()));
  }
}

// Every scheme at every density in every code. dense has one density and no indices.
void understand_schemes(const Typed& typed, Options& options) {
  const auto or_else = [](const std::vector<std::string>& words, const char* otherwise) {
    return words.empty() ? std::vector<std::string>{otherwise} : words;
  };
  for (const auto& word : typed.schemes) {
    for (const auto& density : or_else(typed.densities, "1%")) {
      for (const auto& values : or_else(typed.values, "f16")) {
        for (const auto& indices : or_else(typed.indices, "rice")) {
          plan::Pins pins = find_scheme(word);
          pins.density = find_density(density);
          pins.values = find_word(values, plan::kValueCodes, "--values");
          pins.indices = find_word(indices, plan::kIndexCodes, "--indices");
          if (pins.scheme == plan::Scheme::kDense) {
            pins.density.reset();
            pins.indices.reset();
          }
          if (std::ranges::find(options.schemes, pins) == options.schemes.end())
            options.schemes.push_back(pins);
        }
      }
    }
  }
}

void understand_exchanges(const Typed& typed, Options& options) {
  for (std::string text : typed.plans) {
    std::ranges::replace(text, ',', ' ');  // for launchers that split words at spaces
    options.plans.push_back(plan::parse_plan(text, "--plan"));
    if (options.plans.back().kind == plan::Kind::kUpdates) {
      throw InputError(
          "--plan: gradients are exchanged here; updates send the same bytes under the same "
          "scheme");
    }
  }
  understand_schemes(typed, options);
  for (const auto& text : typed.counts) options.counts.push_back(parse_count(text, "--params"));
  const auto needs_scheme = [&](const auto& words, const char* option) {
    if (!words.empty() && typed.schemes.empty())
      throw InputError(fmt::format("{}: it needs --scheme", option));
  };
  needs_scheme(typed.densities, "--density");
  needs_scheme(typed.values, "--values");
  needs_scheme(typed.indices, "--indices");
  if (!typed.counts.empty() && !exchanges(options))
    throw InputError("--params: it needs --scheme or --plan");
  if (!exchanges(options)) return;
  const char* why = "of collectives; an exchange has its schedules in --plan";
  if (!typed.collectives.empty()) throw InputError(fmt::format("--collective: {}", why));
  if (!options.schedules.empty()) throw InputError(fmt::format("--schedule: {}", why));
  if (typed.segments != "auto") throw InputError(fmt::format("--segments: {}", why));
}

void understand(const Typed& typed, Options& options) {
  if (!typed.min_bytes.empty())
    options.min_bytes = options.max_bytes = parse_bytes(typed.min_bytes, "-b");
  if (!typed.max_bytes.empty()) options.max_bytes = parse_bytes(typed.max_bytes, "-e");
  if (options.max_bytes < options.min_bytes) {
    throw InputError(fmt::format("-e: the largest size, {} bytes, is below the smallest, {}",
                                 options.max_bytes, options.min_bytes));
  }
  if (!(options.factor > 1) || !std::isfinite(options.factor))
    throw InputError(fmt::format("-f: the factor must be above 1, not {}", options.factor));
  if (!typed.collectives.empty()) options.collectives = understand_collectives(typed.collectives);
  for (const auto& name : options.schedules) check_schedule(options, "--schedule", name);
  if (!options.show.empty()) check_schedule(options, "--show", options.show);
  options.segments = understand_segments(typed.segments);
  understand_exchanges(typed, options);
  if (!typed.link.empty()) options.link = plan::parse_link(typed.link, "--link");
  if (typed.deadline == "none") options.deadline.reset();
  if (typed.deadline != "none") options.deadline = parse_duration(typed.deadline, "--deadline");
  if (typed.reference != "auto" && typed.reference != "none") {
    throw InputError(
        fmt::format("--reference: '{}' is neither 'auto' nor 'none'", typed.reference));
  }
  options.reference = typed.reference == "auto";
  if (options.root < 0) throw InputError(fmt::format("--root: {} is not a rank", options.root));
}

}  // namespace

std::size_t parse_bytes(const std::string& text, const std::string& option) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const auto prefix = unit.size() == 1
                          ? std::string_view("KMG").find(static_cast<char>(std::toupper(unit[0])))
                          : std::string_view::npos;
  if (error != std::errc() || (!unit.empty() && prefix == std::string_view::npos)) {
    value = static_cast<double>(parse_size(text, option).value);
  } else if (!unit.empty()) {
    value *= std::pow(1024.0, static_cast<double>(prefix) + 1);
  }
  if (!(value >= sizeof(float)) || value > kLargestBytes) {
    throw InputError(fmt::format("{}: '{}' is not between 4 bytes and 1G", option, text));
  }
  return static_cast<std::size_t>(value);
}

std::size_t parse_count(const std::string& text, const std::string& option) {
  const double value = command_line::parse_count(text, option, "elements");
  if (!(value >= 1) || value * sizeof(float) > kLargestBytes) {
    throw InputError(fmt::format("{}: '{}' is not between 1 and 268M elements", option, text));
  }
  return static_cast<std::size_t>(std::llround(value));
}

bool exchanges(const Options& options) {
  return !options.plans.empty() || !options.schemes.empty();
}

bool wanted(const Options& options, const schedule::Builder& builder) {
  return options.schedules.empty() ||
         std::ranges::find(options.schedules, builder.name) != options.schedules.end();
}

Options parse_options(int argc, const char* const* argv) {
  Options options;
  Typed typed;
  CLI::App app(
      "Times collectives as nccl-tests does: our schedules beside MPI's own, on MPI (mpirun -n 8 "
      "pliant-bench) or on threads (--local 4).",
      "pliant-bench");
  declare(app, options, typed);
  if (const auto help = command_line::read(app, argc, argv)) {
    options.say = *help;
    return options;
  }
  understand(typed, options);
  if (typed.version) options.say = fmt::format("pliant-bench {}\n", version());
  return options;
}

}  // namespace pliant::bench
