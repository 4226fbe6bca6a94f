// SPDX-License-Identifier: MIT
// Short names of plans, for people: what a plan sends and how often, without schedules and codes.
// to_string() of a plan has every part.
#pragma once

#include <string>

#include "pliant/plan/plan.h"

namespace pliant::plan {

// "dense", "top 10 %", "all (srs)" at 100 %, "updates every 4, late 2, top 1 %".
[[nodiscard]] std::string label(const Plan& plan);

// What is sent: "dense", "top 10 %", "top 1 % (srs)".
[[nodiscard]] std::string amount(const Plan& plan);

// What is new in `after`: "top 10 % instead of 20 %", "every 4, late 2 instead of every 2, late 1",
// "updates, top 1 % instead of dense". Plans with the same label are told apart by words of their
// text: "values=int8 instead of values=f32".
[[nodiscard]] std::string difference(const Plan& before, const Plan& after);

}  // namespace pliant::plan
