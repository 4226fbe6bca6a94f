// SPDX-License-Identifier: MIT
// Picture of the magnitudes that a round accumulated: exactly how many entries are above a
// threshold, with some of them, and a sample of all entries. It gives the next round's threshold
// (Tracker) and the gain curve (gain.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace pliant::compress {

// 1 in 256 magnitudes are sampled inside the selection pass. At density 1 % of 25 M entries that is
// 1,000 samples above the threshold, so a threshold from the sample alone is off by 3 % in count
// (1/sqrt(1000)): inside the 8 % margin (2.5 of them) that exact-k trims away.
inline constexpr std::uint32_t kSamplePeriod = 256;

// Smaller models are sampled more densely, to have this many all the same: 16,384 samples know the
// count at density 1 % to within 8 %. A model with fewer entries is sampled whole.
inline constexpr std::size_t kSmallestSample = 16'384;

// Entries above the threshold that are remembered, evenly spread. The count at a threshold 5 %
// denser or sparser is then known to 0.3 % (sqrt(0.05 * 0.95 / 4096)).
inline constexpr std::size_t kTops = 4096;

[[nodiscard]] std::uint32_t sample_period(std::size_t entries);

struct Picture {
  std::size_t entries = 0;  // pictured; 0 before the first round
  double energy = 0;        // of all of them
  float threshold = std::numeric_limits<float>::infinity();
  std::size_t above = 0;      // entries at or above the threshold, exactly
  std::vector<float> tops;    // magnitudes of some of those, evenly spread over them
  std::vector<float> sample;  // magnitudes, one from every `period` entries
  std::uint32_t period = kSamplePeriod;
  float complete_from = std::numeric_limits<float>::infinity();  // every entry above this was kept

  // Empty again, with the memory it has.
  void clear();
};

// The threshold that `target` entries of the pictured ones reach: from the tops where they reach
// far enough, else from the sample. Never zero: an entry that is zero is not worth sending.
[[nodiscard]] float threshold_for(const Picture& picture, double target);

// Threshold of one bucket, followed from round to round: where the last picture puts it, and lower
// if it has been falling. It does not run ahead of a rising one: aiming low costs a trim, aiming
// high a second pass.
class Tracker {
 public:
  // The threshold to use for the next round, 0 if nothing is known yet.
  [[nodiscard]] float aim(double target);

  // The picture of the round with that threshold, or of one that only accumulated. Takes the
  // picture and leaves the one before it, whose memory the next can use.
  void learn(Picture& picture);

 private:
  Picture picture_;
  double trend_ = 0;   // of the logarithm of the threshold, per round
  float aimed_ = 0;    // threshold of the round under way, 0 if it had none
  double target_ = 0;  // entries it was meant to select
};

}  // namespace pliant::compress
