// SPDX-License-Identifier: MIT
// The plain twins: entry by entry, as the header tells it.
#include <array>
#include <numeric>

#include "pliant/kernels/magnitude.h"
#include "pliant/kernels/select.h"

namespace pliant::kernels {

Tally& Tally::operator+=(const Tally& other) {
  kept += other.kept;
  non_finite += other.non_finite;
  sampled += other.sampled;
  kept_energy += other.kept_energy;
  energy += other.energy;
  return *this;
}

namespace scalar {
namespace {

class Energy {
 public:
  void add(float x) {
    const double wide = x;
    lanes_[next_] += wide * wide;
    next_ = (next_ + 1) % kEnergyLanes;
  }
  [[nodiscard]] double total() const { return std::accumulate(lanes_.begin(), lanes_.end(), 0.0); }

 private:
  std::array<double, kEnergyLanes> lanes_{};
  std::size_t next_ = 0;
};

// One pass. `contribution(i)` is asked once for each entry, in order; without room nothing is
// selected.
template <typename Contribution>
Tally pass(std::span<float> residual, Contribution contribution, const Criterion& criterion,
           const Room* out, const Sampling& sampling) {
  Tally tally;
  Energy all, kept;
  for (std::size_t i = 0; i < residual.size(); ++i) {
    const float added = contribution(i);
    if (!is_finite(residual[i] + added)) ++tally.non_finite;
    const float x = accumulated(residual[i], added);
    all.add(x);
    const std::size_t group = i / sampling.period;
    if (!sampling.magnitudes.empty() &&
        i % sampling.period == sampled_entry(sampling.first_group + group, sampling.period)) {
      sampling.magnitudes[tally.sampled++] = magnitude(x);
    }
    const bool selected =
        out != nullptr && magnitude_bits(x) >= magnitude_bits(criterion.threshold);
    residual[i] = selected ? 0.0F : x;
    if (!selected) continue;
    out->indices[tally.kept] = criterion.first_index + static_cast<std::uint32_t>(i);
    out->values[tally.kept++] = x;
    kept.add(x);
  }
  tally.energy = all.total();
  tally.kept_energy = kept.total();
  return tally;
}

auto from_gradient(std::span<const float> gradient) {
  return [gradient](std::size_t i) { return gradient[i]; };
}

auto from_progress(std::span<float> parameters, std::span<const float> reference) {
  return [parameters, reference](std::size_t i) {
    const float progress = parameters[i] - reference[i];
    parameters[i] = reference[i];
    return progress;
  };
}

}  // namespace

Tally accumulate_select(std::span<const float> gradient, std::span<float> residual,
                        const Criterion& criterion, const Room& out, const Sampling& sampling) {
  return pass(residual, from_gradient(gradient), criterion, &out, sampling);
}

Tally progress_select(std::span<float> parameters, std::span<const float> reference,
                      std::span<float> residual, const Criterion& criterion, const Room& out,
                      const Sampling& sampling) {
  return pass(residual, from_progress(parameters, reference), criterion, &out, sampling);
}

Tally select(std::span<float> residual, const Criterion& criterion, const Room& out,
             const Sampling& sampling) {
  const auto nothing = [](std::size_t) {
    return -0.0F;
  };  // x + -0 is x for every x; +0 would turn -0 into +0
  return pass(residual, nothing, criterion, &out, sampling);
}

Tally accumulate(std::span<const float> gradient, std::span<float> residual,
                 const Sampling& sampling) {
  return pass(residual, from_gradient(gradient), {}, nullptr, sampling);
}

Tally progress_accumulate(std::span<float> parameters, std::span<const float> reference,
                          std::span<float> residual, const Sampling& sampling) {
  return pass(residual, from_progress(parameters, reference), {}, nullptr, sampling);
}

}  // namespace scalar
}  // namespace pliant::kernels
