// SPDX-License-Identifier: MIT
// CommonShare: estimate of the share of a rank's progress that the other ranks made too. It gives
// the step scale of optimizers that divide by the size of their gradients.
//
// A rank's progress is a part that all ranks have in common, and noise of its own batches.
// Averaging N ranks leaves the common part as it is and the N-th part of the noise's energy. Under
// plain DDP Adam divides by the size of the *averaged* gradient, noise and all; a rank that trains
// alone divides by the size of its own gradient, which has N times the noise, so its steps go less
// far along what is common. With c for the common share of the energy, they are shorter by sqrt(c +
// (1 - c)/N): lengthening makes up for it.
#pragma once

#include <cstddef>
#include <span>

#include "pliant/engine/state.h"

namespace pliant::engine {

class CommonShare {
 public:
  struct Landed {                   // one exchange, entry by entry
    std::span<const float> result;  // the average over ranks; 0: nobody sent it, or it was trimmed
    std::span<const float> own_part;  // this rank's in it
    std::span<const float> residual;  // what this rank has beyond that
  };
  // `stride`: a sample of the entries is enough.
  void note(const Landed& landed, int ranks, std::size_t stride);
  // The same block by block: adds up blocks, then takes them in.
  struct Sums {
    double with_others = 0;
    double own = 0;
    void add(const Landed& block, int ranks);
  };
  void note(const Sums& sums, int ranks);

  [[nodiscard]] double value() const;                 // 0 to 1; 1 until something has landed
  [[nodiscard]] double lengthening(int ranks) const;  // 1 to sqrt(ranks)

  [[nodiscard]] const CommonShareEnergies& energies() const { return energies_; }
  void restore(const CommonShareEnergies& energies) { energies_ = energies; }

 private:
  CommonShareEnergies energies_;
};

}  // namespace pliant::engine
