// SPDX-License-Identifier: MIT
#include "pliant/exchange/residual_group.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/common/split.h"
#include "pliant/compress/gain.h"
#include "pliant/kernels/dense.h"
#include "pliant/plan/density.h"

namespace pliant::exchange {
namespace {

std::vector<std::size_t> differences(const std::vector<std::size_t>& begins) {
  std::vector<std::size_t> sizes;
  for (std::size_t b = 0; b + 1 < begins.size(); ++b) sizes.push_back(begins[b + 1] - begins[b]);
  return sizes;
}

}  // namespace

ResidualGroup::ResidualGroup(std::span<float> residual)
    : residual_used(!kernels::all_zero(residual)),
      residual_(residual),
      selector_({residual.size()}) {
  require(size() <= UINT32_MAX, "exchange: a group of {} entries; indices have 32 bits", size());
}

std::size_t ResidualGroup::quota(const Terms& terms) const {
  return plan::entries_of(terms.plan.density, size());
}

compress::Outcome ResidualGroup::select(const Terms& terms,
                                        const compress::Contribution& contribution,
                                        compress::Selection& out) {
  residual_used = true;
  const std::size_t keep = quota(terms);
  if (aimed_ != keep) selector_.aim({keep});
  aimed_ = keep;
  const auto outcome = selector_.select(0, contribution, residual_, out);
  selector_.end_round();
  return outcome;
}

compress::Outcome ResidualGroup::accumulate(const compress::Contribution& contribution) {
  residual_used = true;
  const auto outcome = selector_.accumulate(0, contribution, residual_);
  selector_.end_round();
  return outcome;
}

ResidualGroup::Slices ResidualGroup::select_slices(const Terms& terms, int count,
                                                   const compress::Contribution& contribution) {
  residual_used = true;
  Slices slices{.begins = split_points(size(), static_cast<std::size_t>(count))};
  const std::vector<std::size_t> sizes = differences(slices.begins);
  const std::size_t share = (quota(terms) + sizes.size() - 1) / sizes.size();
  for (const std::size_t length : sizes) slices.quotas.push_back(std::min(share, length));
  if (!slicer_ || slice_quotas_.size() != sizes.size()) slicer_.emplace(sizes);
  if (slice_quotas_ != slices.quotas) slicer_->aim(slices.quotas);
  slice_quotas_ = slices.quotas;
  slices.selections.resize(sizes.size());
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    const auto part = compress::slice_of(contribution, slices.begins[b], sizes[b]);
    const auto residual = residual_.subspan(slices.begins[b], sizes[b]);
    slices.tally += slicer_->select(b, part, residual, slices.selections[b]).tally;
  }
  slicer_->end_round();
  return slices;
}

double ResidualGroup::top_energy(const Terms& terms, const compress::Outcome& outcome) const {
  if (outcome.tally.kept > 0) return outcome.tally.kept_energy;
  const std::array densities = {terms.plan.density};
  const auto curve = compress::gain_curve(selector_.picture(), {}, densities);
  return outcome.tally.energy * (curve.empty() ? 1 : curve.front().gain);
}

std::unique_ptr<Workspace> ResidualGroup::borrow_workspace() {
  ++borrowed_;
  if (idle_.empty()) return std::make_unique<Workspace>();
  auto workspace = std::move(idle_.back());
  idle_.pop_back();
  workspace->reset();
  return workspace;
}

void ResidualGroup::give_back(std::unique_ptr<Workspace> workspace) {
  --borrowed_;
  last_capacity_ = workspace->capacity();
  idle_.push_back(std::move(workspace));
}

std::size_t ResidualGroup::scratch_bytes() const {
  std::size_t bytes = borrowed_ * last_capacity_;
  for (const auto& workspace : idle_) bytes += workspace->capacity();
  return bytes;
}

}  // namespace pliant::exchange
