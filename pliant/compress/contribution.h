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

// Progress of parameters that are not one span of memory: it is asked for piece by piece.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  // Of `count` entries from `first` on, at most kLongestPiece of them. Valid until the next call.
  // The caller sets its parameters as if they were the span of a Progress.
  virtual Progress piece(std::size_t first, std::size_t count) = 0;
};
inline constexpr std::size_t kLongestPiece = 65'536;

struct ProgressInPieces {
  ProgressSource* source = nullptr;
  std::size_t first = 0;
  std::size_t size = 0;
};

using Contribution = std::variant<Gradient, Progress, ProgressInPieces>;

[[nodiscard]] inline std::size_t size_of(const Contribution& contribution) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution)) return gradient->values.size();
  if (const auto* pieces = std::get_if<ProgressInPieces>(&contribution)) return pieces->size;
  const auto& progress = std::get<Progress>(contribution);
  return std::min(progress.parameters.size(), progress.reference.size());
}

// `count` entries from `first` on.
[[nodiscard]] inline Contribution slice_of(const Contribution& contribution, std::size_t first,
                                           std::size_t count) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution))
    return Gradient{gradient->values.subspan(first, count)};
  if (const auto* pieces = std::get_if<ProgressInPieces>(&contribution))
    return ProgressInPieces{pieces->source, pieces->first + first, count};
  const auto& progress = std::get<Progress>(contribution);
  return Progress{progress.parameters.subspan(first, count),
                  progress.reference.subspan(first, count)};
}

}  // namespace pliant::compress
