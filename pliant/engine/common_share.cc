// SPDX-License-Identifier: MIT
#include "pliant/engine/common_share.h"

#include <algorithm>
#include <cmath>

#include "pliant/kernels/sampled_energy.h"

namespace pliant::engine {
namespace {

constexpr double kWeight = 0.1;  // of the exchange that has just landed

}  // namespace

// Given what another rank sent of an entry, this rank has on average the common share of it, sent
// or not: so selection does not bend the measure. That others sent about as much as this rank is
// taken for granted.
void CommonShare::note(const Landed& landed, int ranks, std::size_t stride) {
  Sums sums;
  for (std::size_t begin = 0; begin < landed.result.size();
       begin += kernels::kSampleBlock * stride) {
    const std::size_t count = std::min(kernels::kSampleBlock, landed.result.size() - begin);
    sums.add({.result = landed.result.subspan(begin, count),
              .own_part = landed.own_part.subspan(begin, count),
              .residual = landed.residual.subspan(begin, count)},
             ranks);
  }
  note(sums, ranks);
}

void CommonShare::Sums::add(const Landed& block, int ranks) {
  for (std::size_t i = 0; i < block.result.size(); ++i) {
    if (block.result[i] == 0) continue;
    const double mine = block.own_part[i];
    with_others +=
        (mine + block.residual[i]) * (ranks * static_cast<double>(block.result[i]) - mine);
    own += mine * mine;
  }
}

void CommonShare::note(const Sums& sums, int ranks) {
  const double with_others = sums.with_others;
  const double if_alike = (ranks - 1) * sums.own;
  if (!std::isfinite(with_others) || !std::isfinite(if_alike) || if_alike <= 0) return;
  if (energies_.if_alike == 0) energies_ = {if_alike, if_alike};
  energies_.with_others += kWeight * (with_others - energies_.with_others);
  energies_.if_alike += kWeight * (if_alike - energies_.if_alike);
}

double CommonShare::value() const {
  return energies_.if_alike > 0 ? std::clamp(energies_.with_others / energies_.if_alike, 0.0, 1.0)
                                : 1;
}

double CommonShare::lengthening(int ranks) const {
  return 1 / std::sqrt(value() + (1 - value()) / ranks);
}

}  // namespace pliant::engine
