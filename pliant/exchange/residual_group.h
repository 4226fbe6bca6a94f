// SPDX-License-Identifier: MIT
// What a rank keeps of one bucket from exchange to exchange.
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
  // `residual` is somebody else's memory, finite, as long as the bucket. It selects exactly density
  // x size entries, unless `model` is given: then that selector picks, for its bucket number
  // `index`, and its owner aims it and ends its steps.
  explicit ResidualGroup(std::span<float> residual, compress::Selector* model = nullptr,
                         std::size_t index = 0);

  [[nodiscard]] std::size_t size() const { return residual_.size(); }
  [[nodiscard]] std::span<float> residual() const { return residual_; }

  // How many entries a rank may send under these terms; all ranks compute the same.
  [[nodiscard]] std::size_t quota(const Terms& terms) const;

  // Accumulates, and (but for the last) takes the largest entries out of the residual.
  compress::Outcome select(const Terms& terms, const compress::Contribution& contribution,
                           compress::Selection& out);
  compress::Outcome accumulate(const compress::Contribution& contribution);

  // srs: the largest of each of `count` slices, an equal share of the quota each. Indices count
  // from the slice's begin.
  struct Slices {
    std::vector<std::size_t> begins;  // count + 1
    std::vector<std::size_t> quotas;
    std::vector<compress::Selection> selections;
    kernels::Tally tally;
  };
  Slices select_slices(const Terms& terms, int count, const compress::Contribution& contribution);

  // The energy that this rank's largest entries hold, as far as the last accumulate() or select()
  // showed.
  [[nodiscard]] double top_energy(const Terms& terms, const compress::Outcome& outcome) const;

  std::optional<int> voted;  // shared/var: the rank whose entries had the largest energy last time
  bool residual_used;        // false: it is all zero

  // Scratch memory, one per flight in the air; given back, it keeps its pages for the next.
  [[nodiscard]] std::unique_ptr<Workspace> borrow_workspace();
  void give_back(std::unique_ptr<Workspace> workspace);
  [[nodiscard]] std::size_t scratch_bytes() const;  // of those not in the air

 private:
  [[nodiscard]] compress::Selector& selector() { return model_ != nullptr ? *model_ : own_; }

  std::span<float> residual_;
  compress::Selector own_;
  compress::Selector* model_;
  std::size_t index_;
  std::optional<compress::Selector> slicer_;
  std::vector<std::size_t> slice_quotas_;
  std::size_t aimed_ = 0;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

// Part of a contribution.
[[nodiscard]] compress::Contribution slice_of(const compress::Contribution& contribution,
                                              std::size_t begin, std::size_t count);

}  // namespace pliant::exchange
