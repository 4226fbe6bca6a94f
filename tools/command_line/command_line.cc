// SPDX-License-Identifier: MIT
#include "tools/command_line/command_line.h"

#include <fmt/format.h>

#undef exit  // a macro of SimGrid's compiler wrapper, but a member of CLI::App
#include <CLI/CLI.hpp>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"

namespace pliant::command_line {
namespace {

// CLI11 names options by their long form; people may know them by the letter.
std::string with_letter(const CLI::App& app, const std::string& complaint) {
  for (const CLI::Option* option : app.get_options()) {
    const auto& letters = option->get_snames();
    const auto& names = option->get_lnames();
    if (letters.empty() || names.empty() || !complaint.starts_with("--" + names.front() + ":"))
      continue;
    return fmt::format("-{}, {}", letters.front(), complaint);
  }
  return complaint;
}

void refuse_strangers(const CLI::App& app) {
  const auto strangers = app.remaining();
  if (strangers.empty()) return;
  const std::string name = strangers.front().substr(0, strangers.front().find('='));
  if (!name.starts_with("-"))
    throw InputError(
        fmt::format("'{}' is not an option; options start with '-' (see --help)", name));
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& long_name : option->get_lnames()) known.push_back("--" + long_name);
  }
  const auto near = nearest_word(name, known);
  throw InputError(
      fmt::format("unknown option '{}'{}", name,
                  near ? fmt::format(" (did you mean '{}'?)", *near) : " (see --help)"));
}

}  // namespace

std::optional<std::string> read(CLI::App& app, int argc, const char* const* argv) {
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    throw InputError(with_letter(app, error.what()));
  }
  refuse_strangers(app);
  return std::nullopt;
}

double parse_count(const std::string& text, const std::string& option, const std::string& noun) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const auto prefix = unit.size() == 1
                          ? std::string_view("KMG").find(static_cast<char>(std::toupper(unit[0])))
                          : std::string_view::npos;
  if (error != std::errc() || (!unit.empty() && prefix == std::string_view::npos)) {
    throw InputError(
        fmt::format("{}: '{}' is not a number of {}, as in 25.6M", option, text, noun));
  }
  return unit.empty() ? value : value * std::pow(1000.0, static_cast<double>(prefix) + 1);
}

void print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw io_error_from_errno("writing to stdout");
}

std::string read_file(const std::string& path, const std::string& option) {
  if (std::filesystem::is_directory(path))
    throw InputError(fmt::format("{}: '{}' is a folder, not a file", option, path));
  std::ifstream in(path);
  if (!in)
    throw InputError(fmt::format("{}: cannot read '{}': {}", option, path, std::strerror(errno)));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace pliant::command_line
