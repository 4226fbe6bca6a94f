// SPDX-License-Identifier: MIT
// Price of schedules whose messages share a port.
#pragma once

#include <span>

#include "pliant/model/price.h"

namespace pliant::model {

// price() for schedules that let several messages into one port at once: they share it, each
// getting as much as the others unless its other end holds it back (max-min fairness), as flows of
// one transport do. Slower to compute, from event to event; where no two messages meet it gives
// what price() does.
[[nodiscard]] Seconds price_sharing(const Sequence& sequence, std::span<const double> block_bytes,
                                    std::span<const plan::Link> links,
                                    double combine_seconds_per_byte);

}  // namespace pliant::model
