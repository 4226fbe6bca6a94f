// SPDX-License-Identifier: MIT
// Options of pliant-plan.
#pragma once

#include <optional>
#include <string>

#include "pliant/control/options.h"
#include "pliant/model/predict.h"
#include "tools/pliant-plan/run_log.h"

namespace pliant::what_if {

enum class Form { kTable, kJson, kCsv };

struct Options {
  model::Inputs inputs = {};  // world, buckets, compute, costs
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
