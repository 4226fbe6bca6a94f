// SPDX-License-Identifier: MIT
// Command-line parser that all C++ tools share: a mistake is an InputError that names the option
// and suggests the word that was probably meant.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace pliant::command_line {

// Fills the options that were declared on `app`. Returns the help text if that was asked for: print
// it and exit.
[[nodiscard]] std::optional<std::string> read(CLI::App& app, int argc, const char* const* argv);

// "25.6M": how many of `noun` ("parameters"). K, M and G are decimal, in either case.
[[nodiscard]] double parse_count(const std::string& text, const std::string& option,
                                 const std::string& noun);

// Writes to stdout. Throws IoError if that cannot be: a full disk must not look like success.
void print(const std::string& text);

// A whole file that `option` names.
[[nodiscard]] std::string read_file(const std::string& path, const std::string& option);

}  // namespace pliant::command_line
