// SPDX-License-Identifier: MIT
#include "pliant/compress/selector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "pliant/common/errors.h"
#include "pliant/compress/trim.h"
#include "pliant/kernels/dense.h"
#include "pliant/kernels/magnitude.h"
#include "pliant/kernels/sparse.h"

namespace pliant::compress {
namespace {

using kernels::Criterion;
using kernels::Room;
using kernels::Sampling;
using kernels::Tally;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A bucket is swept in segments, and room is made for one segment at a time. Long enough that the
// work between segments does not show, short enough that the room (8 bytes an entry) stays within
// the second-level cache. Small buckets have at least 64, so that the room stays small beside them.
constexpr std::size_t kLongestSegment = kLongestPiece;
constexpr std::size_t kShortestSegment = 4'096;
constexpr std::size_t kFewestSegments = 64;

std::size_t segment_length(std::size_t entries) {
  return std::clamp(std::bit_floor(entries / kFewestSegments), kShortestSegment, kLongestSegment);
}

// Standard errors of the sample by which the threshold is aimed low: it then misses entries, and
// needs a second pass, in one round of 160 if nothing else were known.
constexpr double kMargin = 2.5;

// One piece of progress, of a contribution that is no gradient.
Progress progress_of(const Contribution& contribution) {
  if (const auto* pieces = std::get_if<ProgressInPieces>(&contribution))
    return pieces->source->piece(pieces->first, pieces->size);
  return std::get<Progress>(contribution);
}

Tally accumulate_select(const Contribution& contribution, std::span<float> residual,
                        const Criterion& criterion, const Room& room, const Sampling& sampling) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution)) {
    return kernels::accumulate_select(gradient->values, residual, criterion, room, sampling);
  }
  const Progress progress = progress_of(contribution);
  return kernels::progress_select(progress.parameters, progress.reference, residual, criterion,
                                  room, sampling);
}

Tally accumulate_only(const Contribution& contribution, std::span<float> residual,
                      const Sampling& sampling) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution))
    return kernels::accumulate(gradient->values, residual, sampling);
  const Progress progress = progress_of(contribution);
  return kernels::progress_accumulate(progress.parameters, progress.reference, residual, sampling);
}

// A place for the sample of `count` more entries at the end of `sample`; shrink_sample afterwards.
Sampling more_sample(std::vector<float>& sample, std::uint32_t period, std::size_t first,
                     std::size_t count) {
  const std::size_t before = sample.size();
  sample.resize(before + kernels::sample_room(count, period));
  return {.magnitudes = std::span(sample).subspan(before),
          .period = period,
          .first_group = first / period};
}

void shrink_sample(std::vector<float>& sample, const Sampling& sampling, std::size_t sampled) {
  sample.resize(sample.size() - sampling.magnitudes.size() + sampled);
}

// A pass over a bucket, segment by segment, that never holds many more entries than wanted: when
// the selection grows beyond `keep` plus some slack, it is trimmed to the `keep` largest so far and
// the threshold raised to what it takes to be among them. So a threshold that is much too low, or
// 0, costs time but no memory, and the `keep` largest are found in one pass whatever the order and
// scale of the entries.
class Sweep {
 public:
  Sweep(std::span<float> residual, std::size_t segment, std::size_t keep, float threshold,
        Selection& out)
      : residual_(residual),
        segment_(segment),
        keep_(keep),
        threshold_(keep == 0 ? kInfinity : threshold),
        out_(out) {}

  // `pass(first, count, criterion, room)` selects from `count` entries of the bucket from `first`
  // on.
  template <typename Pass>
  void run(double expected_density, Pass pass) {
    const std::size_t slack = std::max(keep_ / 4, kLongestSegment);
    auto density = static_cast<float>(threshold_ == 0 ? 1 : expected_density);
    for (std::size_t first = 0; first < residual_.size(); first += segment_) {
      const std::size_t count = std::min(segment_, residual_.size() - first);
      const Criterion criterion{.threshold = threshold_,
                                .expected_density = density,
                                .first_index = static_cast<std::uint32_t>(first)};
      const Tally segment = pass(first, count, criterion, out_.room(count));
      out_.resize(out_.size() + segment.kept);
      density = static_cast<float>(segment.kept) / static_cast<float>(count);
      tally_ += segment;
      if (out_.size() > keep_ + slack) raise();
    }
  }

  // Trims the selection to the `keep` largest, and describes it in `seen`: how many entries reached
  // which threshold, with some of them.
  void finish(float threshold, Picture& seen) {
    if (raised_) {
      threshold = seen.complete_from = trim_to_keep();
      describe(threshold, seen);
    } else {
      describe(threshold, seen);
      seen.complete_from = keep_ == 0            ? kInfinity
                           : out_.size() > keep_ ? trim_to_keep()
                                                 : threshold_;
    }
  }

  [[nodiscard]] bool trimmed() const { return trimmed_; }
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  // Later entries that only equal the smallest one kept lose against it: they have higher indices.
  void raise() {
    threshold_ = std::bit_cast<float>(std::bit_cast<std::uint32_t>(trim_to_keep()) + 1);
    raised_ = true;
  }

  // Every entry above the magnitude returned is in the selection.
  float trim_to_keep() {
    const std::size_t keep = std::min(keep_, out_.size());
    trimmed_ = trimmed_ || out_.size() > keep;
    return std::bit_cast<float>(trim(out_, keep, residual_).magnitude_bits);
  }

  // Every stride-th of the selected magnitudes.
  void describe(float threshold, Picture& seen) const {
    seen.threshold = threshold;
    seen.above = out_.size();
    const std::size_t stride = std::max<std::size_t>(out_.size() / kTops, 1);
    for (std::size_t j = stride / 2; j < out_.size(); j += stride)
      seen.tops.push_back(kernels::magnitude(std::as_const(out_).values()[j]));
  }

  std::span<float> residual_;
  std::size_t segment_;  // length
  std::size_t keep_;
  float threshold_;
  Selection& out_;
  Tally tally_;
  bool trimmed_ = false;
  bool raised_ = false;  // else the selection is all that reached the first threshold
};

}  // namespace

Selector::Selector(std::vector<std::size_t> bucket_sizes)
    : sizes_(std::move(bucket_sizes)),
      keep_(sizes_.size()),
      trackers_(sizes_.size()),
      pending_buckets_(sizes_.size()) {
  const std::size_t entries = std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0});
  segment_ = segment_length(entries);
  period_ = sample_period(entries);
  for (const std::size_t size : sizes_)
    require(size <= std::size_t{1} << 32U, "a bucket of {} entries: indices have 32 bits", size);
}

void Selector::aim(std::vector<std::size_t> keep) {
  require(keep.size() == sizes_.size(), "amounts for {} buckets, there are {}", keep.size(),
          sizes_.size());
  require(!begun_, "the amounts change in the middle of a round");
  for (std::size_t b = 0; b < keep.size(); ++b)
    require(keep[b] <= sizes_[b], "keep {} of a bucket of {} entries", keep[b], sizes_[b]);
  keep_ = std::move(keep);
}

void Selector::begin(std::size_t bucket, const Contribution& contribution,
                     std::span<float> residual) {
  require(bucket < sizes_.size(), "bucket {} of {}", bucket, sizes_.size());
  require(residual.size() == sizes_[bucket] && size_of(contribution) == residual.size(),
          "a contribution of {} and a residual of {} entries for bucket {} of {}",
          size_of(contribution), residual.size(), bucket, sizes_[bucket]);
  if (!std::exchange(begun_, true)) {
    pending_.clear();
    pending_.period = period_;
    pending_.complete_from = 0;
  }
  Picture& seen = pending_buckets_[bucket];
  seen.clear();
  seen.entries = residual.size();
  seen.period = period_;
}

Outcome Selector::select(std::size_t bucket, const Contribution& contribution,
                         std::span<float> residual, Selection& out) {
  begin(bucket, contribution, residual);
  out.clear();
  Picture& seen = pending_buckets_[bucket];
  const std::size_t keep = keep_[bucket];
  const std::size_t sampled = pending_.sample.size();

  const double target =
      static_cast<double>(keep) + kMargin * std::sqrt(static_cast<double>(keep) * period_);
  const bool all = target >= static_cast<double>(residual.size());
  const float threshold = trackers_[bucket].aim(all ? 0 : target);
  Sweep sweep(residual, segment_, keep, threshold, out);
  sweep.run(
      target / static_cast<double>(residual.size()),
      [&](std::size_t first, std::size_t count, const Criterion& criterion, const Room& room) {
        return sampled_pass(first, count, contribution, residual, criterion, room);
      });
  seen.sample.assign(pending_.sample.begin() + static_cast<std::ptrdiff_t>(sampled),
                     pending_.sample.end());

  Outcome outcome{.tally = sweep.tally(), .passes = 1};
  if (out.size() >= keep) {
    sweep.finish(threshold, seen);
  } else {  // aimed too high: all that was missed is in the residual, and the rest goes back there
    kernels::scatter(residual, out.indices(), out.values());
    out.clear();
    Sweep again(residual, segment_, keep, 0, out);
    again.run(
        1, [&](std::size_t first, std::size_t count, const Criterion& criterion, const Room& room) {
          return kernels::select(residual.subspan(first, count), criterion, room);
        });
    again.finish(0, seen);
    outcome.passes = 2;
  }
  outcome.tally.kept = out.size();
  if (sweep.trimmed() || outcome.passes > 1)
    outcome.tally.kept_energy = kernels::energy(out.values());
  add_to_picture(residual.size(), outcome.tally, seen.complete_from);
  return outcome;
}

Tally Selector::sampled_pass(std::size_t first, std::size_t count, const Contribution& contribution,
                             std::span<float> residual, const Criterion& criterion,
                             const Room& room) {
  const Sampling sampling = more_sample(pending_.sample, period_, first, count);
  const Tally tally = accumulate_select(slice_of(contribution, first, count),
                                        residual.subspan(first, count), criterion, room, sampling);
  shrink_sample(pending_.sample, sampling, tally.sampled);
  return tally;
}

void Selector::add_to_picture(std::size_t entries, const Tally& tally, float complete_from) {
  pending_.entries += entries;
  pending_.energy += tally.energy;
  pending_.complete_from = std::max(pending_.complete_from, complete_from);
}

Outcome Selector::accumulate(std::size_t bucket, const Contribution& contribution,
                             std::span<float> residual) {
  begin(bucket, contribution, residual);
  const bool in_pieces = std::holds_alternative<ProgressInPieces>(contribution);
  const std::size_t longest = in_pieces ? kLongestPiece : residual.size();
  Tally tally;
  for (std::size_t first = 0; first < residual.size(); first += longest) {
    const std::size_t count = std::min(longest, residual.size() - first);
    const Sampling sampling = more_sample(pending_.sample, period_, first, count);
    const Tally piece = accumulate_only(slice_of(contribution, first, count),
                                        residual.subspan(first, count), sampling);
    shrink_sample(pending_.sample, sampling, piece.sampled);
    tally += piece;
  }
  pending_buckets_[bucket].sample.assign(
      pending_.sample.end() - static_cast<std::ptrdiff_t>(tally.sampled), pending_.sample.end());
  add_to_picture(residual.size(), tally, kInfinity);
  return {.tally = tally, .passes = 1};
}

void Selector::end_round() {
  require(std::exchange(begun_, false), "a round ends that never began");
  std::swap(picture_, pending_);
  for (std::size_t b = 0; b < trackers_.size(); ++b) {
    if (pending_buckets_[b].entries > 0) trackers_[b].learn(pending_buckets_[b]);
    pending_buckets_[b].clear();
  }
}

}  // namespace pliant::compress
