// SPDX-License-Identifier: MIT
// Reader of run logs (docs/formats/run-log.md): the model, the machine and the network of a real
// run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pliant/model/efficiency.h"
#include "pliant/plan/costs.h"
#include "pliant/plan/link.h"

namespace pliant::what_if {

struct RunLog {
  std::string path = {};
  int ranks = 0;
  int lanes = 0;
  bool adam = false;
  std::size_t parameters = 0;
  std::vector<std::size_t> buckets =
      {};  // entries of each, in the order in which they become ready
  plan::CostTable costs = {};
  int steps = 0;                        // that say how long they computed
  Seconds compute = {};                 // their median
  std::optional<plan::Link> link = {};  // the last estimate
  std::optional<double> overlap =
      {};                      // of the ranks' selections, from the updated fraction under union
  model::GainCurve gain = {};  // the median at each density that the run used
  std::optional<plan::Plan> last_plan = {};  // in force in the last step
  Seconds last_step = {};                    // what a step took under it: the median
};

// Throws InputError that names the file and the line.
[[nodiscard]] RunLog read_run_log(const std::string& path);

}  // namespace pliant::what_if
