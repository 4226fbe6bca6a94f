// SPDX-License-Identifier: MIT
// Options of pliant-plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pliant/control/options.h"
#include "pliant/model/predict.h"
#include "tools/pliant-plan/run_log.h"

namespace pliant::what_if {

enum class Form { kTable, kJson, kCsv };

// Islands under DDP. Each rank exchanges one part of the model with its across group, and the
// groups share an island's link: `Options::inputs` describes one of them.
struct Islands {
  int count = 0;
  int ranks = 0;                            // of each
  plan::Link inside = {};                   // between the ranks of an island
  std::vector<model::Bucket> buckets = {};  // of the whole model
  Seconds compute = {};                     // of a step, without any averaging
};

struct Options {
  model::Inputs inputs = {};  // world, buckets, compute, costs
  std::optional<Islands> islands = {};
  control::Options control = {};
  std::optional<RunLog> log = {};  // if there is one, what was not typed came from it
  bool as_logged = false;  // nothing about the model, the ranks or the network was typed beside it
  bool sweep = false;
  Form form = Form::kTable;
  std::string say = {};  // print this and leave
};

// Throws InputError that names the option and what is wrong with it.
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

// "25.6M": K, M and G are decimal.
[[nodiscard]] std::size_t parse_count(const std::string& text, const std::string& option);

// Hosts one after the other, each with its link and how many ranks it has:
//   [[host]]
//   link = "1gbit,1ms"
//   ranks = 2
[[nodiscard]] plan::World parse_links(const std::string& path);

}  // namespace pliant::what_if
