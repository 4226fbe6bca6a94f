// SPDX-License-Identifier: MIT
// State of one group of buckets that a rank keeps from exchange to exchange: residual, selectors,
// the last vote and scratch memory. A group travels in one exchange.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pliant/compress/selector.h"
#include "pliant/exchange/terms.h"
#include "pliant/exchange/workspace.h"

namespace pliant::exchange {

class ResidualGroup {
 public:
  // `residual` is the caller's memory, finite, as long as the group.
  explicit ResidualGroup(std::span<float> residual);

  [[nodiscard]] std::size_t size() const { return residual_.size(); }
  [[nodiscard]] std::span<float> residual() const { return residual_; }

  // Entries that a rank sends under these terms: density x size, the same on all ranks.
  [[nodiscard]] std::size_t quota(const Terms& terms) const;

  // Adds the contribution to the residual and takes the largest entries out of it.
  compress::Outcome select(const Terms& terms, const compress::Contribution& contribution,
                           compress::Selection& out);
  // Adds the contribution to the residual.
  compress::Outcome accumulate(const compress::Contribution& contribution);

  // srs: the largest entries of each of `count` slices, an equal share of the quota each. Indices
  // count from the slice's begin.
  struct Slices {
    std::vector<std::size_t> begins;  // count + 1
    std::vector<std::size_t> quotas;
    std::vector<compress::Selection> selections;
    kernels::Tally tally;
  };
  Slices select_slices(const Terms& terms, int count, const compress::Contribution& contribution);

  // The energy of this rank's largest entries, estimated from the last accumulate() or select().
  [[nodiscard]] double top_energy(const Terms& terms, const compress::Outcome& outcome) const;

  std::optional<int> voted;  // shared/var: the rank whose entries had the largest energy last time
  bool residual_used;        // false if the residual is all zero

  // Scratch memory, one for each flight under way. Given back, it keeps its pages for the next.
  [[nodiscard]] std::unique_ptr<Workspace> borrow_workspace();
  void give_back(std::unique_ptr<Workspace> workspace);
  // Of all of them; one that is borrowed counts as large as the last that was given back.
  [[nodiscard]] std::size_t scratch_bytes() const;

 private:
  std::span<float> residual_;
  compress::Selector selector_;
  std::size_t aimed_ = 0;  // quota that selector_ has
  std::optional<compress::Selector> slicer_;
  std::vector<std::size_t> slice_quotas_;  // that slicer_ has
  std::vector<std::unique_ptr<Workspace>> idle_;
  std::size_t borrowed_ = 0;
  std::size_t last_capacity_ = 0;
};

using Bucket = ResidualGroup;  // the former name, for programs written with it

}  // namespace pliant::exchange
