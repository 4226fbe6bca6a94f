// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/switch/commands.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"

namespace pliant::lab {
namespace {

const std::array<std::string, 5> kCommands = {"set", "down", "up", "phase", "status"};

std::optional<int> parse_host(const std::string& word, int hosts) {
  if (word == "all") return std::nullopt;
  const bool number = !word.empty() && word.size() < 4 &&
                      std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
  if (!number || std::stoi(word) >= hosts)
    throw InputError(
        fmt::format("'{}' is not a host; there are hosts 0 to {}, and 'all'", word, hosts - 1));
  return std::stoi(word);
}

std::string rest_of(std::istringstream& words) {
  std::string rest;
  std::getline(words >> std::ws, rest);
  while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.back())) != 0)
    rest.pop_back();
  return rest;
}

std::string obey(Emulation& emulation, const std::string& line, Time now) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (std::ranges::find(kCommands, command) == kCommands.end()) {
    throw InputError(
        fmt::format("unknown command '{}'{}", command, suggestion(command, kCommands)));
  }
  if (command == "status") return emulation.status(now).dump();
  if (command == "phase") return emulation.trigger(rest_of(words), now), "ok";
  std::string host;
  words >> host;
  const auto which = parse_host(host, emulation.plan().hosts);
  const LinkChange change = parse_link(command == "set" ? rest_of(words) : command, command);
  emulation.change(which, change, "command", now);
  return "ok";
}

}  // namespace

std::string execute(Emulation& emulation, const std::string& line, Time now) {
  try {
    return obey(emulation, line, now);
  } catch (const InputError& error) {
    return std::string("error: ") + error.what();
  }
}

}  // namespace pliant::lab
