// SPDX-License-Identifier: MIT
// Handshake of all ranks before the first exchange: compares facts, gathers short texts, and finds
// the slowest rank's coding costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pliant/comm/communicator.h"
#include "pliant/common/errors.h"
#include "pliant/plan/costs.h"

namespace pliant::agree {

using Facts =
    std::vector<std::pair<std::string, std::string>>;  // name, value; neither has a line break

// Collective. Every rank throws the same Disagreement, or none does. Facts travel only if their
// hashes differ. Ranks are compared with those of the same part only (Record::part).
void agree(comm::Communicator& communicator, const Facts& mine, std::optional<Seconds> deadline,
           std::uint16_t part = 0);

// Everybody's text, by rank. Collective. Adds the bytes that this rank sends to `sent`.
[[nodiscard]] std::vector<std::string> gather_texts(comm::Communicator& communicator,
                                                    const std::string& mine,
                                                    std::optional<Seconds> deadline, Bytes& sent);

// Collective. If some rank has an objection (is not empty) every rank throws the first one, as
// IoError.
void go_on_unless(comm::Communicator& communicator, const std::string& objection,
                  std::optional<Seconds> deadline);

// Collective. The largest of each number over all ranks, which give equally many.
[[nodiscard]] std::vector<std::size_t> largest(comm::Communicator& communicator,
                                               const std::vector<std::size_t>& mine,
                                               std::optional<Seconds> deadline);

// Collective. The cost of each coding operation on the slowest rank.
[[nodiscard]] plan::CostTable slowest_costs(comm::Communicator& communicator,
                                            const plan::CostTable& mine,
                                            std::optional<Seconds> deadline);

}  // namespace pliant::agree
