// SPDX-License-Identifier: MIT
// Options of an engine. They must be the same on all ranks, which the engine checks first; only
// deadline, log and run_log may differ.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/common/log.h"
#include "pliant/common/units.h"
#include "pliant/control/options.h"
#include "pliant/model/efficiency.h"
#include "pliant/model/predict.h"
#include "pliant/plan/costs.h"
#include "pliant/plan/pins.h"
#include "pliant/runlog/options.h"

namespace pliant::engine {

using control::WarmUp;
using pliant::Log;
using pliant::Severity;
using RunLogOptions = runlog::Options;

struct Options {
  plan::Pins pins = {};  // the fixed parts of the plan; nothing pinned is "auto"
  bool updates = false;  // the optimizer is at hand: plans of kind updates may be chosen
  bool shared = true;    // false: contributions are picked elsewhere, and a rank cannot send what
                         // another one picks
  bool adam = false;     // it divides by a second moment
  // Rules for choosing the parts that are not pinned. If kind, scheme and density are pinned,
  // nothing is chosen.
  control::Options control = {};
  model::EfficiencyOptions efficiency = {};
  double drift = model::kUsualDrift;
  double drag = model::kUsualDrag;
  double lengthen = 1;  // updates, adam: 1: steps are lengthened in full (common_share.h); 0: not
  std::optional<plan::CostTable> costs =
      {};  // of coding on this machine; none: measured at the start, in about 10 ms
  std::optional<Seconds> deadline;  // for each message; nullopt = no deadline
  int check_every = 100;  // exchanges between two comparisons of what the ranks applied; 0: never
  WarmUp warm_up = WarmUp::kNone;
  std::int64_t warm_up_steps = 0;
  double clip_norm =
      0;  // each rank's own gradient is clipped to this norm before it is accumulated; 0: not
  // Facts of the caller's that must be alike on all ranks, by name: "torch" -> "2.13.0".
  std::vector<std::pair<std::string, std::string>> facts = {};
  Log log = {};  // called from any thread; nothing: silence
  RunLogOptions run_log = {};
  std::string objection =
      {};  // why this rank cannot take part, if it cannot: all ranks throw it together, as IoError
};

}  // namespace pliant::engine
