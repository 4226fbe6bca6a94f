// SPDX-License-Identifier: MIT
// How an engine's run log begins: the file, opened on all ranks or on none, and its first line.
#pragma once

#include <memory>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/engine/options.h"
#include "pliant/plan/costs.h"
#include "pliant/runlog/run_log.h"

namespace pliant::engine {

// Collective: if one rank cannot write its log, all stop here. Null where this rank keeps none.
[[nodiscard]] std::unique_ptr<runlog::RunLog> open_log(const Options& options,
                                                       comm::Communicator& control);

// What the options and the model say; rank, world, lanes and buckets are the engine's to add.
[[nodiscard]] runlog::LogHeader header_of(const Options& options,
                                          const std::vector<Parameter>& parameters,
                                          const plan::CostTable& costs);

}  // namespace pliant::engine
