// SPDX-License-Identifier: MIT
// The user's choices about the run log: where it is written and what its header says of the run.
#pragma once

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

}  // namespace pliant::runlog
