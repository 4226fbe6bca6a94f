// SPDX-License-Identifier: MIT
// Link: the network as the cost model sees it. Each rank has one full-duplex port with a latency
// and an inverse bandwidth. Both are effective values, measured above the transport, with an
// uncertainty.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pliant/common/units.h"

namespace pliant::plan {

// Uncertainties are one standard deviation, in the unit of the value; 0 = told, not measured.
struct Link {
  Seconds latency = {};         // per message
  double seconds_per_byte = 0;  // 0 = infinitely fast
  Seconds latency_uncertainty = {};
  double seconds_per_byte_uncertainty = 0;
  bool operator==(const Link&) const = default;
};

[[nodiscard]] Link link_of(BytesPerSecond bandwidth, Seconds latency);
[[nodiscard]] BytesPerSecond bandwidth(const Link& link);

using Links = std::vector<Link>;  // one per rank

[[nodiscard]] bool all_equal(const Links& links);

// Ranks of a job, and the links between them.
struct World {
  int size = 1;
  Links links = {};  // `size` of them
  bool operator==(const World&) const = default;
};

[[nodiscard]] World uniform_world(int size, const Link& link);

// "100mbit,10ms": bandwidth ("inf" for infinitely fast), then latency, without uncertainties.
// Throws InputError that names `what`.
[[nodiscard]] Link parse_link(std::string_view text, std::string_view what = "link");
// The same form, six significant digits, so that parse_link gives both values back within 1e-5.
[[nodiscard]] std::string to_string(const Link& link);
// Whether the bandwidth cannot be told from an infinite one: its share of what was timed is lost in
// the noise.
[[nodiscard]] bool too_fast_to_tell(const Link& link);

// For people: "100 Mbit/s +-2 %, 10 ms +-5 %", or "too fast to tell, 10 ms +-5 %".
[[nodiscard]] std::string describe(const Link& link);

}  // namespace pliant::plan
