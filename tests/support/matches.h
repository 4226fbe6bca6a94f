// SPDX-License-Identifier: MIT
// Whether a plan has every pinned part, as pinned.
#pragma once

#include "pliant/plan/plan.h"

namespace pliant::plan {

inline bool matches(const Plan& plan, const Pins& pins) {
  const Pins all = pins_of(plan);
  const auto agree = [&](auto part) { return !(pins.*part) || pins.*part == all.*part; };
  return agree(&Pins::kind) && agree(&Pins::every) && agree(&Pins::late) && agree(&Pins::scheme) &&
         agree(&Pins::leader) && agree(&Pins::scatter) && agree(&Pins::gather) &&
         agree(&Pins::bcast) && agree(&Pins::segments) && agree(&Pins::reduce) &&
         agree(&Pins::density) && agree(&Pins::values) && agree(&Pins::indices) &&
         agree(&Pins::fuse);
}

}  // namespace pliant::plan
