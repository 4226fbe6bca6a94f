// SPDX-License-Identifier: MIT
// Options of the run log: its path, what its header says about the run, and how the run ended.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pliant::runlog {

struct Options {
  // Only rank 0 writes. With {rank} in the path, every rank writes a file of its own. An empty path
  // writes nothing.
  std::string path = {};
  std::string name = {};                  // of the run; empty: the file's name without its ending
  std::vector<std::string> command = {};  // that started the run
  std::vector<std::pair<std::string, std::string>> versions = {};  // "torch" -> "2.13.0"
  std::vector<std::pair<std::string, std::string>> options = {};   // the caller's own options
  bool watched = false;  // step lines are put together even without a path, for latest()
};

// How a run ended.
struct Ending {
  bool is_interrupted = false;                      // by the user, as with Ctrl-C
  std::optional<std::string> error = std::nullopt;  // what the run failed by
};

}  // namespace pliant::runlog
