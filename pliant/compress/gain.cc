// SPDX-License-Identifier: MIT
#include "pliant/compress/gain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "pliant/common/errors.h"

namespace pliant::compress {
namespace {

double square(float x) { return double{x} * double{x}; }

// Descending magnitudes and, before each, the energy of those before it.
class Ranked {
 public:
  explicit Ranked(std::vector<float> magnitudes)
      : magnitudes_(std::move(magnitudes)), energy_before_{0} {
    std::ranges::sort(magnitudes_, std::greater<>());
    energy_before_.reserve(magnitudes_.size() + 1);
    for (const float x : magnitudes_) energy_before_.push_back(energy_before_.back() + square(x));
  }

  [[nodiscard]] std::size_t size() const { return magnitudes_.size(); }
  [[nodiscard]] double energy() const { return energy_before_.back(); }
  [[nodiscard]] const std::vector<float>& magnitudes() const { return magnitudes_; }

  // Of the `count` largest; a fraction of an entry counts as that fraction of its energy.
  [[nodiscard]] double energy_of_largest(double count) const {
    const auto whole = std::min(static_cast<std::size_t>(count), size());
    const double part =
        whole < size() ? (count - static_cast<double>(whole)) * square(magnitudes_[whole]) : 0;
    return energy_before_[whole] + part;
  }

 private:
  std::vector<float> magnitudes_;
  std::vector<double> energy_before_;
};

// The kept entries of which it is certain that no larger one was left behind.
Ranked complete_entries(const Picture& picture, std::span<const std::span<const float>> kept) {
  std::vector<float> magnitudes;
  for (const auto values : kept) {
    for (const float x : values) {
      if (std::abs(x) >= picture.complete_from) magnitudes.push_back(std::abs(x));
    }
  }
  return Ranked(std::move(magnitudes));
}

// The sampled ones among all others. Of those that equal the smallest complete entry as many are
// left out as were kept.
Ranked sampled_rest(const Picture& picture, const Ranked& complete) {
  std::vector<float> magnitudes;
  const auto equal_kept =
      static_cast<double>(std::ranges::count(complete.magnitudes(), picture.complete_from)) /
      picture.period;
  auto equal_left_out = static_cast<std::size_t>(std::llround(equal_kept));
  for (const float x : picture.sample) {
    if (x > picture.complete_from) continue;
    if (x == picture.complete_from && equal_left_out > 0) {
      --equal_left_out;
      continue;
    }
    magnitudes.push_back(x);
  }
  return Ranked(std::move(magnitudes));
}

// Share of the sample's energy that its largest `fraction` of entries holds, and the standard error
// of that share: the spread of what each sampled entry x^2 adds to it, (x^2 - q^2)+ - share * x^2
// with q the smallest of the largest.
struct Share {
  double value = 0;
  double standard_error = 0;
};

Share share_of_largest(const Ranked& sample, double fraction, double sampling_rate) {
  const auto size = static_cast<double>(sample.size());
  const double count = fraction * size;
  // Nothing sampled has energy: the share may be anything from the fraction, if all are alike, up
  // to 1.
  if (sample.energy() == 0) return {.value = fraction, .standard_error = (1 - fraction) / 3};
  const double share = sample.energy_of_largest(count) / sample.energy();
  const double edge =
      square(sample.magnitudes()[std::min(static_cast<std::size_t>(count), sample.size() - 1)]);
  double sum = 0, sum_of_squares = 0;
  for (const float x : sample.magnitudes()) {
    const double added = std::max(square(x) - edge, 0.0) - share * square(x);
    sum += added;
    sum_of_squares += added * added;
  }
  const double variance = std::max(sum_of_squares - sum * sum / size, 0.0) * (1 - sampling_rate);
  // Half an entry is what rounding the rank may cost; it matters only when few sampled entries are
  // involved.
  const double rounding = sampling_rate < 1 ? edge / 2 : 0;
  return {.value = share,
          .standard_error = std::sqrt(variance + rounding * rounding) / sample.energy()};
}

}  // namespace

std::vector<GainPoint> gain_curve(const Picture& picture,
                                  std::span<const std::span<const float>> kept,
                                  std::span<const double> densities) {
  const Ranked complete = complete_entries(picture, kept);
  const Ranked rest = sampled_rest(picture, complete);
  const auto entries = static_cast<double>(picture.entries);
  const double rest_entries = entries - static_cast<double>(complete.size());
  const double rest_energy = std::max(picture.energy - complete.energy(), 0.0);

  std::vector<GainPoint> curve;
  for (const double density : densities) {
    require(density >= 0 && density <= 1, "a gain is asked for at density {}", density);
    const double count = std::round(density * entries);
    GainPoint point{.density = density, .gain = 1, .standard_error = 0};
    if (picture.energy > 0 && count < entries) {
      point.gain = std::min(complete.energy_of_largest(count) / picture.energy, 1.0);
      if (count > static_cast<double>(complete.size())) {
        const Share share =
            share_of_largest(rest, (count - static_cast<double>(complete.size())) / rest_entries,
                             1.0 / picture.period);
        point.gain =
            std::min((complete.energy() + share.value * rest_energy) / picture.energy, 1.0);
        point.standard_error = share.standard_error * rest_energy / picture.energy;
      }
    }
    curve.push_back(point);
  }
  return curve;
}

}  // namespace pliant::compress
