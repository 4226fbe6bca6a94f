// SPDX-License-Identifier: MIT
// pliant-lab: a network of N hosts on one machine, with real packets, that changes over time.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "pliant/common/exit_code.h"
#include "pliant/common/suggest.h"
#include "pliant/common/version.h"
#include "tools/pliant-lab/cli/commands.h"
#include "tools/pliant-lab/host/report.h"

namespace pliant::lab {
namespace {

struct Arguments {
  std::vector<std::string> ours;  // without the program's name
  Command command;                // after "--"
};

Arguments split(int argc, char** argv) {
  const std::vector<std::string> all(argv + 1, argv + argc);
  const auto dashes = std::ranges::find(all, "--");
  Arguments arguments{{all.begin(), dashes}, {}};
  if (dashes != all.end()) arguments.command.assign(dashes + 1, all.end());
  return arguments;
}

// The command line, and what it asks for once it has been parsed.
class Tool {
 public:
  Tool() {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", fmt::format("pliant-lab {}", version()),
                          "Print the version and exit");
    app_.footer(
        "Exit status: that of the first host that failed; 2 bad input, 6 something is missing "
        "here, 124 --timeout, 128+n ended by signal "
        "n.");
    CLI::App* in_hosts = network_command(
        "run", "Run a command in every host, with RANK, WORLD_SIZE, MASTER_ADDR and so on set",
        &run);
    in_hosts
        ->add_option("--ranks-per-host", options_.ranks_per_host,
                     "Processes in each host, which share its link; torchrun is started once in "
                     "each host and starts them itself")
        ->capture_default_str();
    network_command("mpirun", "Run a program under Open MPI, one rank in each host", &mpirun);
    network_command("shell", "A prompt in host 0", &shell);
    add_exec();
    add_set();
    add_state("down", "Cut a host off");
    add_state("up", "Bring a host back");
    add_phase();
    add_status();
    add_timelines();
  }

  int obey(Arguments arguments) {
    command_ = std::move(arguments.command);
    std::vector<std::string> reversed(arguments.ours.rbegin(),
                                      arguments.ours.rend());  // as CLI11 takes them
    try {
      app_.parse(reversed);
    } catch (const CLI::Success& help) {
      return app_.exit(help);
    } catch (const CLI::ParseError& error) {
      throw InputError(explain(error, arguments.ours));
    }
    return action_();
  }

 private:
  using NetworkCommand = int (*)(const NetworkOptions&, const Command&);

  CLI::App* network_command(const char* name, const char* help, NetworkCommand command) {
    CLI::App* sub = app_.add_subcommand(name, help);
    options_.add_to(*sub);
    sub->callback(
        [this, command] { action_ = [this, command] { return command(options_, command_); }; });
    return sub;
  }

  CLI::App* control_command(const char* name, const char* help) {
    CLI::App* sub = app_.add_subcommand(name, help);
    sub->add_option("--lab", lab_,
                    "Process number of the lab's switch, if several labs are running");
    return sub;
  }

  void tell_on(CLI::App* sub, std::function<std::string()> line) {
    sub->callback(
        [this, line = std::move(line)] { action_ = [this, line] { return tell(lab_, line()); }; });
  }

  void add_exec() {
    CLI::App* sub = control_command("exec", "Run a command in a host of a running lab");
    sub->add_option("host", host_, "Number of the host")->required();
    sub->callback([this] { action_ = [this] { return exec_in_host(host_, lab_, command_); }; });
  }

  void add_set() {
    CLI::App* sub = control_command("set", "Change a link of a running lab");
    sub->add_option("--host", host_, "Number of the host; without it, every host");
    sub->add_option("--link", link_, "What changes, as in 1mbit,300ms")->required();
    tell_on(sub, [this] { return fmt::format("set {} {}", host_.empty() ? "all" : host_, link_); });
  }

  void add_state(const std::string& state, const char* help) {
    CLI::App* sub = control_command(state.c_str(), help);
    sub->add_option("host", host_, "Number of the host, or all")->required();
    tell_on(sub, [this, state] { return state + " " + host_; });
  }

  void add_phase() {
    CLI::App* sub = control_command("phase", "Enter a named phase of the timeline");
    sub->add_option("name", name_, "Name of the phase")->required();
    tell_on(sub, [this] { return "phase " + name_; });
  }

  void add_status() {
    CLI::App* sub = control_command("status", "What the network is now, and what it has carried");
    sub->add_flag("--json", json_, "For machines");
    sub->callback([this] { action_ = [this] { return status(lab_, json_); }; });
  }

  void add_timelines() {
    CLI::App* sub = app_.add_subcommand("timelines", "List the shipped timelines, or print one");
    sub->add_option("name", name_, "Name of one");
    sub->callback([this] {
      action_ = [this] { return name_.empty() ? list_timelines() : print_timeline(name_); };
    });
  }

  // CLI11 says what is wrong; this adds what was probably meant.
  [[nodiscard]] std::string explain(const CLI::ParseError& error,
                                    const std::vector<std::string>& words) const {
    const auto commands = app_.get_subcommands([](const CLI::App*) { return true; });
    std::vector<std::string> known;
    known.reserve(commands.size());
    for (const CLI::App* sub : commands) known.push_back(sub->get_name());
    if (!words.empty() && std::ranges::find(known, words.front()) == known.end())
      return unknown("command", words.front(), known);
    const std::vector<std::string> options = option_names();
    for (const std::string& word : words) {
      const std::string name = word.substr(0, word.find('='));
      if (name.starts_with("--") && std::ranges::find(options, name) == options.end())
        return unknown("option", name, options);
    }
    return fmt::format("{} (see pliant-lab --help)", error.what());
  }

  [[nodiscard]] std::vector<std::string> option_names() const {
    std::vector<std::string> names = {"--help"};
    for (const CLI::App* sub : app_.get_subcommands()) {
      for (const CLI::Option* option : sub->get_options()) names.push_back(option->get_name());
    }
    return names;
  }

  [[nodiscard]] static std::string unknown(const char* what, const std::string& word,
                                           const std::vector<std::string>& known) {
    return fmt::format("unknown {} '{}'{}", what, word, suggestion(word, known));
  }

  CLI::App app_{
      "A network of N hosts on one machine: real packets, rates, delays and losses that change "
      "over time.",
      "pliant-lab"};
  NetworkOptions options_;
  Command command_;
  std::optional<int> lab_;
  std::string host_;
  std::string link_;
  std::string name_;
  bool json_ = false;
  std::function<int()> action_;
};

}  // namespace
}  // namespace pliant::lab

int main(int argc, char** argv) {
  using namespace pliant::lab;
  return report_errors([&] {
    if (argc > 1 && std::string(argv[1]) == "mpi-agent") return mpi_agent({argv + 2, argv + argc});
    return Tool().obey(split(argc, argv));
  });
}
