// SPDX-License-Identifier: MIT
// Groups of units that are exchanged together, with the residual of each.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pliant/common/buffer.h"
#include "pliant/engine/state.h"
#include "pliant/engine/units.h"
#include "pliant/exchange/residual_group.h"

namespace pliant::engine {

struct GradientGroup {
  Range entries;
  std::vector<int> parameters;
  std::unique_ptr<exchange::ResidualGroup> residual;
  Buffer<float> assembled;  // where pieces that do not lie side by side are put
  [[nodiscard]] std::size_t scratch_bytes() const;
};

class GradientGroups {
 public:
  explicit GradientGroups(std::vector<std::size_t> parameter_sizes);

  // Cuts the units into groups as the plan wants them; nothing to do if they are cut so already.
  void form(plan::Fusion fusion);
  // Other units from now on. The residual moves with its parameters.
  void set_units(Units units);

  [[nodiscard]] std::size_t count() const { return groups_.size(); }
  [[nodiscard]] GradientGroup& operator[](std::size_t group) { return groups_[group]; }
  [[nodiscard]] std::size_t group_of(int parameter) const;
  [[nodiscard]] const std::vector<std::size_t>& sizes() const { return sizes_; }  // by parameter
  [[nodiscard]] const Units& units() const { return arrangement_.units(); }
  [[nodiscard]] std::vector<std::size_t> unit_lengths() const;
  [[nodiscard]] std::size_t entries() const { return arrangement_.size(); }  // of the model
  [[nodiscard]] std::string identity() const;  // of the units, for ranks to compare
  [[nodiscard]] std::span<float> residual() const { return residual_.span(); }
  [[nodiscard]] std::span<float> residual_of(int parameter) const;

  void write(State& state) const;
  // Throws ContractError that names what does not fit; nothing has changed then.
  void read(const State& state);

 private:
  void make_residual();

  const std::vector<std::size_t> sizes_;
  Arrangement arrangement_;
  Buffer<float> residual_;  // from the first step on: a run of updates needs none
  std::vector<GradientGroup> groups_;
  std::vector<std::size_t> group_of_;  // by parameter
  std::optional<plan::Fusion> fusion_;
  std::vector<int> voted_;  // restored, for groups that are yet to be formed
};

}  // namespace pliant::engine
