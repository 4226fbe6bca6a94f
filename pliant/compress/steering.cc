// SPDX-License-Identifier: MIT
#include "pliant/compress/steering.h"

#include <algorithm>
#include <cmath>

namespace pliant::compress {
namespace {

// A total that promises to be this close to its target is left alone: half of the 5 % promised.
constexpr double kTolerance = 0.025;

// Nor is it touched because of what may be chance: three standard deviations of the count so far.
constexpr double kChance = 3;

// Counts below this say nothing about a change.
constexpr double kFewest = 256;

// The threshold moves by what should change the count by at most this factor at a time: power laws
// do not reach far.
constexpr double kLargestFactor = 4;

// Share of a segment's newest count in its average; counts of one step are noisy, and layers change
// over many steps.
constexpr double kNewest = 0.25;

// Share of the average that is spread evenly: a segment that kept nothing so far may do so now.
constexpr double kSpread = 0.02;

}  // namespace

void Steering::begin_step(double target, float threshold, double power, std::size_t segments) {
  if (profile_.size() != segments) {
    profile_.assign(segments, 1);
    profile_total_ = static_cast<double>(segments);
    profiled_ = false;
  }
  kept_.assign(segments, 0);
  target_ = target;
  power_ = power;
  threshold_ = highest_ = start_ = threshold;
  moved_ = false;
  done_ = since_kept_ = since_expected_ = 0;
  left_ = target;
}

double Steering::expected(std::size_t segment) const {
  const double even = 1 / static_cast<double>(profile_.size());
  return target_ *
         (kSpread * even +
          (1 - kSpread) * (profile_total_ > 0 ? profile_[segment] / profile_total_ : even));
}

void Steering::count(std::size_t segment, std::size_t kept) {
  const auto counted = static_cast<double>(kept);
  kept_[segment] = threshold_ > 0 ? counted * std::pow(threshold_ / start_, power_)
                                  : counted;  // as if the threshold had not moved
  done_ += counted;
  left_ -= expected(segment);
  since_kept_ += counted;
  since_expected_ += expected(segment);
  if (!profiled_ || std::max(since_kept_, since_expected_) < kFewest ||
      left_ < kTolerance * target_)
    return;

  const double rate = (since_kept_ + 1) / (since_expected_ + 1);
  const double promised = done_ + left_ * rate;
  const double chance = kChance * left_ * rate / std::sqrt(since_kept_ + 1);
  if (std::abs(promised - target_) < std::max(kTolerance * target_, chance)) return;
  const double factor =
      std::clamp((target_ - done_) / (left_ * rate), 1 / kLargestFactor, kLargestFactor);
  threshold_ = static_cast<float>(threshold_ * std::pow(factor, -1 / power_));
  highest_ = std::max(highest_, threshold_);
  moved_ = true;
  since_kept_ = since_expected_ = 0;
}

void Steering::end_step(Counts counts) {
  if (counts == Counts::kNot) return;
  profile_total_ = 0;
  for (std::size_t s = 0; s < profile_.size(); ++s) {
    profile_[s] = !profiled_ ? kept_[s] : (1 - kNewest) * profile_[s] + kNewest * kept_[s];
    profile_total_ += profile_[s];
  }
  profiled_ = true;
}

}  // namespace pliant::compress
