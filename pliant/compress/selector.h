// SPDX-License-Identifier: MIT
// Selection of the largest accumulated entries, with error feedback. One Selector serves the
// buckets of one exchange, round after round:
//
//   Selector selector(bucket_sizes);
//   selector.aim(keep);                                     // when the density changes
//   for each bucket: selector.select(b, Gradient{gradient}, residual, selection);
//   selector.end_round();
//
// Each select() adds the contribution to the residual, takes the selected entries out of it and
// leaves all others in it. It selects exactly `keep` entries: the largest by the total order of
// trim.h. The pass over memory uses a threshold from the last round, aimed low by 2.5 standard
// errors of the sample, and trims what is too much. If the threshold was too high after all, a
// second pass finds the rest. After the first few rounds nothing is allocated.
//
// Used by one thread at a time. Never reads a clock; the same inputs give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pliant/compress/contribution.h"
#include "pliant/compress/picture.h"
#include "pliant/compress/selection.h"
#include "pliant/kernels/select.h"

namespace pliant::compress {

struct Outcome {
  kernels::Tally tally;  // of accumulated and of what is finally kept
  int passes = 0;        // over all entries of the bucket: 1, rarely 2
};

class Selector {
 public:
  // Indices are 32 bits: no bucket has more than 2^32 entries.
  explicit Selector(std::vector<std::size_t> bucket_sizes);

  // From the next round on, keep[b] entries of bucket b.
  void aim(std::vector<std::size_t> keep);

  // Replaces `out`. The residual must be finite and stays so.
  Outcome select(std::size_t bucket, const Contribution& contribution, std::span<float> residual,
                 Selection& out);

  // The same without selecting, for ranks that follow a leader's indices. They sample too, since
  // they lead soon.
  Outcome accumulate(std::size_t bucket, const Contribution& contribution,
                     std::span<float> residual);

  // After all buckets of a round: its magnitudes give the next round's thresholds.
  void end_round();

  // Magnitudes of all buckets in the last round, for the gain curve.
  [[nodiscard]] const Picture& picture() const { return picture_; }

 private:
  void begin(std::size_t bucket, const Contribution& contribution, std::span<float> residual);
  kernels::Tally sampled_pass(std::size_t first, std::size_t count,
                              const Contribution& contribution, std::span<float> residual,
                              const kernels::Criterion& criterion, const kernels::Room& room);
  void add_to_picture(std::size_t entries, const kernels::Tally& tally, float complete_from);

  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> keep_;
  std::size_t segment_;            // entries of a segment
  std::uint32_t period_;           // entries for each one that is sampled
  std::vector<Tracker> trackers_;  // the threshold of each bucket
  Picture picture_;                // of all buckets, in the last round

  // The round under way.
  bool begun_ = false;
  Picture pending_;  // of all buckets so far
  std::vector<Picture> pending_buckets_;
};

}  // namespace pliant::compress
