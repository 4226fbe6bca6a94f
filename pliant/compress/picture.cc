// SPDX-License-Identifier: MIT
#include "pliant/compress/picture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace pliant::compress {
namespace {

// Beyond this a count is no longer extended along the slope of the tops, but read off the sample.
constexpr double kReach = 1.25;

// Share of the tops over which that slope is taken: the part next to the threshold, yet 800 of 4096
// entries.
constexpr double kSlopeFrom = 0.8;

// Fewer tops than this say too little about a slope.
constexpr std::size_t kFewestTops = 64;

// Kept from call to call, so that rounds do not allocate.
std::vector<float>& scratch() {
  thread_local std::vector<float> memory;
  return memory;
}

// The rank-th largest, from 1. Reorders.
float largest_of(std::vector<float>& magnitudes, double rank) {
  const auto place = static_cast<std::ptrdiff_t>(
                         std::clamp(std::ceil(rank), 1.0, static_cast<double>(magnitudes.size()))) -
                     1;
  std::nth_element(magnitudes.begin(), magnitudes.begin() + place, magnitudes.end(),
                   std::greater<>());
  return magnitudes[static_cast<std::size_t>(place)];
}

float largest(const std::vector<float>& magnitudes, double rank) {
  scratch().assign(magnitudes.begin(), magnitudes.end());
  return largest_of(scratch(), rank);
}

bool slope_is_known(const Picture& picture) {
  return picture.tops.size() >= kFewestTops &&
         largest(picture.tops, kSlopeFrom * static_cast<double>(picture.tops.size())) >
             picture.threshold;
}

// The power of the threshold by which counts fall, close to it: read off the tops, between the
// extremes seen in practice.
double power_at(const Picture& picture) {
  constexpr double kLowest = 1, kHighest = 16;
  const float inner = largest(picture.tops, kSlopeFrom * static_cast<double>(picture.tops.size()));
  return std::clamp(std::log(kSlopeFrom) / std::log(double{picture.threshold} / double{inner}),
                    kLowest, kHighest);
}

// The entries above the threshold are known; those still missing are looked for among the sampled
// ones below it.
float read_off_sample(const Picture& picture, double target) {
  std::vector<float>& below = scratch();
  below.clear();
  for (const float x : picture.sample) {
    if (x < picture.threshold) below.push_back(x);
  }
  const double missing = (target - static_cast<double>(picture.above)) / picture.period;
  return missing > static_cast<double>(below.size()) || below.empty() ? 0
                                                                      : largest_of(below, missing);
}

}  // namespace

std::uint32_t sample_period(std::size_t entries) {
  return std::min(kSamplePeriod, static_cast<std::uint32_t>(std::bit_floor(
                                     std::max<std::size_t>(entries / kSmallestSample, 1))));
}

void Picture::clear() {
  tops.clear();
  sample.clear();
  *this = {.tops = std::move(tops), .sample = std::move(sample)};
}

float threshold_for(const Picture& picture, double target) {
  const auto above = static_cast<double>(picture.above);
  float threshold = 0;
  if (above >= target && !picture.tops.empty()) {
    threshold = largest(picture.tops, target / above * static_cast<double>(picture.tops.size()));
  } else if (above * kReach >= target && slope_is_known(picture)) {
    threshold =
        static_cast<float>(picture.threshold * std::pow(above / target, 1 / power_at(picture)));
  } else {
    threshold = read_off_sample(picture, target);
  }
  return std::max(threshold, std::numeric_limits<float>::denorm_min());
}

float Tracker::aim(double target) {
  target_ = target;
  aimed_ =
      picture_.entries == 0 || target <= 0
          ? 0
          : static_cast<float>(threshold_for(picture_, target) * std::exp(std::min(trend_, 0.0)));
  if (aimed_ > 0)
    aimed_ = std::clamp(aimed_, std::numeric_limits<float>::denorm_min(),
                        std::numeric_limits<float>::max());
  return aimed_;
}

// A drift moves the count by the same factor every round: an error beyond the noise of counting (3
// / sqrt(k)) is believed at once, a smaller one by a tenth. A count off by more than a factor of
// two is a jump, not a drift.
void Tracker::learn(Picture& picture) {
  std::swap(picture_, picture);
  if (aimed_ == 0 || picture_.above == 0 || picture_.threshold != aimed_) {
    trend_ = 0;
    return;
  }
  const double count_error = std::abs(std::log(static_cast<double>(picture_.above) / target_));
  const double error = std::log(double{threshold_for(picture_, target_)} / double{aimed_});
  if (count_error > std::log(2.0)) {
    trend_ = 0;
  } else {
    trend_ += count_error > 3 / std::sqrt(target_) ? error : 0.1 * error;
  }
}

}  // namespace pliant::compress
