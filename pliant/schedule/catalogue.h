// SPDX-License-Identifier: MIT
// Catalogue of all builders of schedules, by name.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "pliant/schedule/schedule.h"

namespace pliant::schedule {

enum class Collective { kReduceScatter, kAllGather, kBroadcast, kAllReduce };
[[nodiscard]] std::string_view to_string(Collective collective);

// Parameters of a builder besides the rank. Builders ignore those that they do not need.
struct Shape {
  int size;
  int root = 0;      // broadcast only
  int segments = 1;  // chain and double tree only
};

struct Builder {
  Collective collective;
  std::string_view name;
  Schedule (*build)(int rank, const Shape& shape);
  int (*blocks)(const Shape& shape);  // how many blocks the schedule is over
  bool segmented = false;             // does Shape::segments matter
};

[[nodiscard]] std::span<const Builder> builders();

// The builder of that name, or InputError that lists the names there are.
[[nodiscard]] const Builder& find_builder(Collective collective, std::string_view name);

// The schedules of all ranks.
[[nodiscard]] std::vector<Schedule> build_all(const Builder& builder, const Shape& shape);

}  // namespace pliant::schedule
