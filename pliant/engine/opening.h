// SPDX-License-Identifier: MIT
// Opening of an engine before its first round: compares facts between ranks, and opens the run log
// and writes its first line.
#pragma once

#include <memory>
#include <vector>

#include "pliant/agree/handshake.h"
#include "pliant/comm/communicator.h"
#include "pliant/engine/options.h"
#include "pliant/engine/tensors.h"
#include "pliant/runlog/run_log.h"

namespace pliant::engine {

struct Parts;

// Version and options, which must be alike on all ranks.
[[nodiscard]] agree::Facts facts_of(const Options& options);
// The model, or part of a model, which must be alike on all ranks that exchange it.
[[nodiscard]] agree::Facts facts_of(const std::vector<Parameter>& parameters,
                                    const std::vector<Parameter>& buffers);

// Collective: if one rank cannot write its log, all ranks throw. Null on a rank that keeps none.
[[nodiscard]] std::unique_ptr<runlog::RunLog> open_log(const Options& options,
                                                       comm::Communicator& control);

[[nodiscard]] runlog::LogHeader header_of(const Parts& parts);

}  // namespace pliant::engine
