// SPDX-License-Identifier: MIT
// Contribution of a rank to an exchange: its gradient, or the progress of its parameters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <variant>

namespace pliant::compress {

struct Gradient {
  std::span<const float> values;
};

// Progress is parameters - reference. Selecting sets parameters = reference; the caller then adds
// what it sends, as receivers decode it, to both at the selected indices.
struct Progress {
  std::span<float> parameters;
  std::span<const float> reference;
};

using Contribution = std::variant<Gradient, Progress>;

[[nodiscard]] inline std::size_t size_of(const Contribution& contribution) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution)) return gradient->values.size();
  const auto& progress = std::get<Progress>(contribution);
  return std::min(progress.parameters.size(), progress.reference.size());
}

// `count` entries from `first` on.
[[nodiscard]] inline Contribution slice_of(const Contribution& contribution, std::size_t first,
                                           std::size_t count) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution))
    return Gradient{gradient->values.subspan(first, count)};
  const auto& progress = std::get<Progress>(contribution);
  return Progress{progress.parameters.subspan(first, count),
                  progress.reference.subspan(first, count)};
}

}  // namespace pliant::compress
