// SPDX-License-Identifier: MIT
// Layout of the model for exchanges: the place of each parameter in the residual, and the
// parameters that are exchanged together.
//
// A unit is a run of parameters that travel together, a group is a run of units that the plan
// fuses. Units are the engine's own: a frame's buckets come and go (DDP cuts them anew after the
// first step, and again after a restart), while what is selected and in which order it is summed
// depends on the cut. So units are adopted from the frame's buckets once and kept.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pliant/plan/choices.h"

namespace pliant::engine {

using Units = std::vector<std::vector<int>>;  // parameters of each, in order

// From `begin` on, `count` of something.
struct Range {
  std::size_t begin = 0;
  std::size_t count = 0;
  [[nodiscard]] std::size_t end() const { return begin + count; }
  bool operator==(const Range&) const = default;
};

class Arrangement {
 public:
  // Throws ContractError unless the units hold every parameter exactly once.
  Arrangement(std::vector<std::size_t> parameter_sizes, Units units);

  [[nodiscard]] const Units& units() const { return units_; }
  [[nodiscard]] std::size_t parameters() const { return sizes_.size(); }
  [[nodiscard]] std::size_t size() const { return size_; }  // entries of the model
  [[nodiscard]] Range place(int parameter) const;           // its entries
  [[nodiscard]] Range entries(const Range& units) const;    // of a run of units

  // The runs of units that are exchanged as one, in order.
  [[nodiscard]] std::vector<Range> groups(plan::Fusion fusion) const;

 private:
  std::vector<std::size_t> sizes_;  // by parameter
  Units units_;
  std::vector<std::size_t> begins_;  // by parameter
  std::vector<std::size_t> unit_begins_;
  std::size_t size_ = 0;
};

// Units before any bucket has been seen: last parameter first, as backward makes them ready, about
// 25 MiB each.
[[nodiscard]] Units default_units(std::span<const std::size_t> parameter_sizes);

// The same entries in another order.
void rearrange(const Arrangement& from, const Arrangement& to, std::span<float> entries);

}  // namespace pliant::engine
