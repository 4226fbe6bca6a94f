// SPDX-License-Identifier: MIT
// pliant-plan: what would a step take, and does compressing pay?
#include <cstdio>

#include "pliant/common/errors.h"
#include "pliant/common/exit_code.h"
#include "tools/command_line/command_line.h"
#include "tools/pliant-plan/report.h"

namespace pliant::what_if {
namespace {

std::string answer(const Options& options) {
  model::PriceBook book;
  if (!options.sweep) return report(options, advise(options, book), break_even(options, book));
  std::vector<Swept> rows;
  for (const plan::Link& link : sweep_links()) {
    Options one = options;
    one.inputs.world = plan::uniform_world(options.inputs.world.size, link);
    rows.push_back({link, advise(one, book)});
  }
  return report_sweep(options, rows);
}

}  // namespace
}  // namespace pliant::what_if

int main(int argc, char** argv) {
  try {
    const auto options = pliant::what_if::parse_options(argc, argv);
    pliant::command_line::print(options.say.empty() ? pliant::what_if::answer(options)
                                                    : options.say);
    return pliant::kExitFine;
  } catch (const pliant::InputError& error) {
    std::fprintf(stderr, "pliant-plan: %s\n", error.what());
    return pliant::kExitBadInput;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pliant-plan: %s\n", error.what());
    return pliant::kExitFailed;
  }
}
