// SPDX-License-Identifier: MIT
// Reader of a packet-delivery trace in the format of mahimahi: one time in ms a line, each the
// chance to deliver 1500 bytes.
#pragma once

#include <istream>
#include <memory>
#include <string>

#include "tools/pliant-lab/net/rate.h"

namespace pliant::lab {

// Throw InputError that names the file and the line.
[[nodiscard]] std::shared_ptr<const Trace> read_trace(const std::string& path);
[[nodiscard]] std::shared_ptr<const Trace> read_trace(std::istream& text, const std::string& name);

// The same shape with other bandwidth and time: `bandwidth` multiplies what passes a second, `time`
// the length.
[[nodiscard]] std::shared_ptr<const Trace> scaled(const Trace& trace, double bandwidth,
                                                  double time);

}  // namespace pliant::lab
