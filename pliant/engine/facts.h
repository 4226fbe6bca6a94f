// SPDX-License-Identifier: MIT
// What must be alike on all ranks before they exchange anything: version, options, model.
#pragma once

#include <vector>

#include "pliant/agree/handshake.h"
#include "pliant/engine/options.h"

namespace pliant::engine {

[[nodiscard]] agree::Facts facts_of(const std::vector<Parameter>& parameters,
                                    const std::vector<Parameter>& buffers, const Options& options);

}  // namespace pliant::engine
