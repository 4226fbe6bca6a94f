// SPDX-License-Identifier: MIT
#include "pliant/compress/selector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "pliant/common/errors.h"
#include "pliant/compress/residual.h"
#include "pliant/compress/trim.h"
#include "pliant/kernels/dense.h"
#include "pliant/kernels/magnitude.h"
#include "pliant/kernels/sparse.h"

namespace pliant::compress {
namespace {

using kernels::Criterion;
using kernels::magnitude;
using kernels::magnitude_bits;
using kernels::Room;
using kernels::Sampling;
using kernels::Tally;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

// A bucket is swept in segments, and room is made for one segment at a time. Long enough that the
// work between segments does not show, short enough that the room (8 bytes an entry) stays within
// the second-level cache. A small model has at least 64 all the same, for the threshold to be
// steered by.
constexpr std::size_t kLongestSegment = 65'536;
constexpr std::size_t kShortestSegment = 4'096;
constexpr std::size_t kFewestSegments = 64;

std::size_t segment_length(std::size_t entries) {
  return std::clamp(std::bit_floor(entries / kFewestSegments), kShortestSegment, kLongestSegment);
}

// Standard errors of the sample by which exact-k aims low: it then misses entries, and needs a
// second pass, in one step of 160 if nothing else were known.
constexpr double kMargin = 2.5;

// Rounds of bisection, as published.
constexpr int kMsTopkRounds = 25;

// The contribution of `count` entries from `first` on.
Contribution part_of(const Contribution& contribution, std::size_t first, std::size_t count) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution))
    return Gradient{gradient->values.subspan(first, count)};
  const auto& progress = std::get<Progress>(contribution);
  return Progress{progress.parameters.subspan(first, count),
                  progress.reference.subspan(first, count)};
}

std::size_t size_of(const Contribution& contribution) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution)) return gradient->values.size();
  const auto& progress = std::get<Progress>(contribution);
  return std::min(progress.parameters.size(), progress.reference.size());
}

Tally accumulate_select(const Contribution& contribution, std::span<float> residual,
                        const Criterion& criterion, const Room& room, const Sampling& sampling) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution)) {
    return kernels::accumulate_select(gradient->values, residual, criterion, room, sampling);
  }
  const auto& progress = std::get<Progress>(contribution);
  return kernels::progress_select(progress.parameters, progress.reference, residual, criterion,
                                  room, sampling);
}

Tally accumulate_only(const Contribution& contribution, std::span<float> residual,
                      const Sampling& sampling) {
  if (const auto* gradient = std::get_if<Gradient>(&contribution))
    return kernels::accumulate(gradient->values, residual, sampling);
  const auto& progress = std::get<Progress>(contribution);
  return kernels::progress_accumulate(progress.parameters, progress.reference, residual, sampling);
}

// A place for the sample of `count` more entries at the end of `sample`; shrink_to what was sampled
// afterwards.
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

// Every stride-th of the selected magnitudes.
void append_tops(Picture& picture, const Selection& selection, std::size_t expected) {
  const std::size_t stride = std::max<std::size_t>(expected / kTops, 1);
  for (std::size_t j = stride / 2; j < selection.size(); j += stride)
    picture.tops.push_back(magnitude(selection.values()[j]));
}

}  // namespace

// A pass over part of a bucket, segment by segment, that never holds many more entries than wanted:
// when the selection grows beyond `limit` plus some slack, it is trimmed to the `limit` largest so
// far and the threshold raised to what it takes to be among them. So a threshold that is much too
// low, or 0, costs time but no memory, and the `limit` largest are found in one pass whatever the
// order and scale of the entries.
class Selector::Sweep {
 public:
  Sweep(const Part& part, std::size_t segment, std::span<float> residual, std::size_t limit,
        float threshold, Selection& out)
      : part_(part),
        segment_(segment),
        residual_(residual),
        limit_(limit),
        threshold_(limit == 0 ? kInfinity : threshold),
        out_(out) {}

  // Lets the counts of the segments move the threshold.
  void steer_by(Steering& steering) { steering_ = &steering; }

  // `pass(first, count, criterion, room)` selects from `count` entries of the bucket from `first`
  // on.
  template <typename Pass>
  void run(double expected_density, Pass pass) {
    const std::size_t slack = std::max(limit_ / 4, kLongestSegment);
    auto density = static_cast<float>(threshold_ == 0 ? 1 : expected_density);
    for (std::size_t first = part_.first; first < part_.first + part_.size; first += segment_) {
      const std::size_t count = std::min(segment_, part_.first + part_.size - first);
      if (steering_ != nullptr) threshold_ = std::max(steering_->threshold(), lowest_);
      const Criterion criterion{.threshold = threshold_,
                                .expected_density = density,
                                .first_index = static_cast<std::uint32_t>(first)};
      const Tally segment = pass(first, count, criterion, out_.room(count));
      out_.resize(out_.size() + segment.kept);
      density = static_cast<float>(segment.kept) / static_cast<float>(count);
      tally_ += segment;
      if (steering_ != nullptr)
        steering_->count(part_.segment + (first - part_.first) / segment_, segment.kept);
      if (out_.size() > limit_ + slack) raise();
    }
  }

  // Down to the limit, unless it was never exceeded. Everything above the magnitude returned is in
  // the selection.
  float finish() {
    if (limit_ == 0) return kInfinity;
    if (out_.size() <= limit_ && !raised_) return threshold_;
    return std::bit_cast<float>(cut_down().magnitude_bits);
  }

  [[nodiscard]] bool raised() const {
    return raised_;
  }  // else the selection is all that reached the first threshold
  [[nodiscard]] std::size_t trimmed() const { return trimmed_; }
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  // Later entries that only equal the smallest one kept lose against it: they have higher indices.
  void raise() {
    threshold_ = lowest_ = std::bit_cast<float>(cut_down().magnitude_bits + 1);
    raised_ = true;
  }

  Cut cut_down() {
    const std::size_t keep = std::min(limit_, out_.size());
    trimmed_ += out_.size() - keep;
    return trim(out_, keep, residual_);
  }

  const Part& part_;
  std::size_t segment_;  // length
  std::span<float> residual_;
  std::size_t limit_;
  float threshold_;
  Selection& out_;
  Steering* steering_ = nullptr;
  float lowest_ = kSmallest;  // that steering may go to
  Tally tally_;
  std::size_t trimmed_ = 0;
  bool raised_ = false;
};

Selector::Selector(Method method, std::vector<std::size_t> bucket_sizes,
                   std::vector<std::vector<std::size_t>> layers)
    : method_(method) {
  require(method != Method::kLayerwise || layers.size() == bucket_sizes.size(),
          "layers of {} buckets given for {} buckets", layers.size(), bucket_sizes.size());
  std::size_t trackers = 0;
  entries_ = std::accumulate(bucket_sizes.begin(), bucket_sizes.end(), std::size_t{0});
  segment_ = segment_length(entries_);
  for (const std::size_t size : bucket_sizes) {
    require(size <= std::size_t{1} << 32U, "a bucket of {} entries: indices have 32 bits", size);
    buckets_.push_back({.first = 0,
                        .size = size,
                        .tracker = method == Method::kExact ? trackers++ : 0,
                        .segment = segments_});
    segments_ += (size + segment_ - 1) / segment_;
  }
  if (method == Method::kLayerwise) {
    for (std::size_t b = 0; b < layers.size(); ++b) {
      auto& parts = layers_.emplace_back();
      std::size_t first = 0;
      for (const std::size_t size : layers[b]) {
        parts.push_back({.first = first, .size = size, .tracker = trackers++, .segment = 0});
        first += size;
      }
      require(first == bucket_sizes[b], "layers of {} entries in a bucket of {}", first,
              bucket_sizes[b]);
    }
  }
  trackers_.resize(trackers);
  pending_parts_.resize(trackers);
  amounts_.resize(buckets_.size());
}

void Selector::aim(std::vector<Amount> amounts) {
  require(amounts.size() == buckets_.size(), "amounts for {} buckets, there are {}", amounts.size(),
          buckets_.size());
  require(!step_begun_, "the amounts change in the middle of a step");
  keep_ = 0;
  for (std::size_t b = 0; b < amounts.size(); ++b) {
    require(amounts[b].keep <= buckets_[b].size, "keep {} of a bucket of {} entries",
            amounts[b].keep, buckets_[b].size);
    keep_ += amounts[b].keep;
  }
  amounts_ = std::move(amounts);
}

void Selector::restore(State state) {
  require(state.parts.size() == trackers_.size(), "a state of {} thresholds for a selector of {}",
          state.parts.size(), trackers_.size());
  require(!step_begun_, "a state is restored in the middle of a step");
  model_ = std::move(state.model);
  trackers_ = std::move(state.parts);
  steering_ = std::move(state.steering);
}

void Selector::begin_step() {
  if (std::exchange(step_begun_, true)) return;
  pending_.clear();
  pending_.period = sample_period(entries_);
  pending_.complete_from = 0;
  cut_short_ = selected_ = false;
  if (method_ != Method::kApproximate) return;  // the others have no threshold of the whole model
  threshold_ = model_.aim(static_cast<double>(keep_));
  pending_.threshold = threshold_;
  steering_.begin_step(static_cast<double>(keep_), threshold_, power_at(model_.picture()),
                       segments_);
}

Outcome Selector::select(std::size_t bucket, const Contribution& contribution,
                         std::span<float> residual, Selection& out) {
  require(bucket < buckets_.size(), "bucket {} of {}", bucket, buckets_.size());
  require(residual.size() == buckets_[bucket].size && size_of(contribution) == residual.size(),
          "a contribution of {} and a residual of {} entries for bucket {} of {}",
          size_of(contribution), residual.size(), bucket, buckets_[bucket].size);
  begin_step();
  selected_ = true;
  out.clear();
  const std::size_t sampled = pending_.sample.size();
  Outcome outcome;
  switch (method_) {
    case Method::kExact:
      outcome = select_exact(buckets_[bucket], amounts_[bucket].keep, contribution, residual, out);
      break;
    case Method::kApproximate:
      outcome = select_approximate(bucket, contribution, residual, out);
      break;
    case Method::kLayerwise:
      outcome = select_layerwise(bucket, contribution, residual, out);
      break;
    case Method::kMsTopk:
      outcome = select_mstopk(bucket, contribution, residual, out);
      break;
  }
  outcome.tally.sampled = pending_.sample.size() - sampled;
  pending_.entries += residual.size();
  pending_.energy += outcome.tally.energy;
  return outcome;
}

Outcome Selector::accumulate(std::size_t bucket, const Contribution& contribution,
                             std::span<float> residual) {
  require(bucket < buckets_.size() && residual.size() == buckets_[bucket].size &&
              size_of(contribution) == residual.size(),
          "a contribution of {} and a residual of {} entries for bucket {}", size_of(contribution),
          residual.size(), bucket);
  begin_step();
  const Sampling sampling = more_sample(pending_.sample, pending_.period, 0, residual.size());
  const Tally tally = accumulate_only(contribution, residual, sampling);
  shrink_sample(pending_.sample, sampling, tally.sampled);
  if (method_ == Method::kExact) {
    Picture& seen = pending_parts_[buckets_[bucket].tracker];
    seen.clear();
    seen.entries = residual.size();
    seen.period = pending_.period;
    seen.sample.assign(pending_.sample.end() - static_cast<std::ptrdiff_t>(tally.sampled),
                       pending_.sample.end());
  }
  pending_.entries += residual.size();
  pending_.energy += tally.energy;
  pending_.complete_from = kInfinity;
  pending_.threshold = kInfinity;
  return {.tally = tally, .trimmed = 0, .passes = 1};
}

Outcome Selector::select_exact(const Part& part, std::size_t keep, const Contribution& contribution,
                               std::span<float> residual, Selection& out) {
  Tracker& tracker = trackers_[part.tracker];
  Picture& seen = pending_parts_[part.tracker];
  seen.clear();
  seen.entries = part.size;
  seen.period = pending_.period;
  const std::size_t sampled = pending_.sample.size();

  const double target =
      static_cast<double>(keep) + kMargin * std::sqrt(static_cast<double>(keep) * pending_.period);
  const bool all = target >= static_cast<double>(part.size);
  const float threshold = tracker.aim(all ? 0 : target);
  Sweep sweep(part, segment_, residual, keep, threshold, out);
  sweep.run(
      target / static_cast<double>(part.size),
      [&](std::size_t first, std::size_t count, const Criterion& criterion, const Room& room) {
        const Sampling sampling = more_sample(pending_.sample, pending_.period, first, count);
        const Tally tally =
            accumulate_select(part_of(contribution, first, count), residual.subspan(first, count),
                              criterion, room, sampling);
        shrink_sample(pending_.sample, sampling, tally.sampled);
        return tally;
      });
  Outcome outcome{.tally = sweep.tally(), .trimmed = 0, .passes = 1};
  seen.sample.assign(pending_.sample.begin() + static_cast<std::ptrdiff_t>(sampled),
                     pending_.sample.end());

  const auto describe_and_finish = [&](Sweep& last, float reached) {
    seen.threshold = reached;
    seen.above = out.size();
    if (!last.raised()) append_tops(seen, out, out.size());
    seen.complete_from = last.finish();
    if (last.raised()) {
      seen.threshold = seen.complete_from;
      seen.above = out.size();
      append_tops(seen, out, out.size());
    }
    outcome.trimmed = last.trimmed();
  };
  if (out.size() >= keep) {
    describe_and_finish(sweep, threshold);
  } else {  // aimed too high: all that was missed is in the residual, and the rest goes back there
    kernels::scatter(residual, out.indices(), out.values());
    out.clear();
    Sweep again(part, segment_, residual, keep, 0, out);
    again.run(
        1, [&](std::size_t first, std::size_t count, const Criterion& criterion, const Room& room) {
          return kernels::select(residual.subspan(first, count), criterion, room);
        });
    outcome.passes = 2;
    describe_and_finish(again, 0);
  }
  pending_.complete_from = std::max(pending_.complete_from, seen.complete_from);
  outcome.tally.kept = out.size();
  if (outcome.trimmed > 0 || outcome.passes > 1)
    outcome.tally.kept_energy = kernels::energy(out.values());
  return outcome;
}

Outcome Selector::select_approximate(std::size_t bucket, const Contribution& contribution,
                                     std::span<float> residual, Selection& out) {
  const Part& part = buckets_[bucket];
  const Amount& amount = amounts_[bucket];
  const bool first_step = threshold_ == 0;
  const std::size_t limit = keep_ == 0   ? 0
                            : first_step ? std::min(amount.keep, amount.quota)
                                         : amount.quota;
  Sweep sweep(part, segment_, residual, limit, std::max(threshold_, kSmallest), out);
  if (!first_step) sweep.steer_by(steering_);
  const double density =
      first_step ? 1 : static_cast<double>(keep_) / static_cast<double>(entries_);
  sweep.run(density, [&](std::size_t first, std::size_t count, const Criterion& criterion,
                         const Room& room) {
    const Sampling sampling = more_sample(pending_.sample, pending_.period, first, count);
    const Tally tally =
        accumulate_select(part_of(contribution, first, count), residual.subspan(first, count),
                          criterion, room, sampling);
    shrink_sample(pending_.sample, sampling, tally.sampled);
    return tally;
  });
  if (!sweep.raised()) {
    pending_.above += out.size();
    append_tops(pending_, out, keep_);
  }
  const float complete_from = sweep.finish();
  pending_.complete_from =
      std::max(pending_.complete_from, std::max(complete_from, steering_.highest_threshold()));
  if (first_step) count_segments(part, out);
  if (sweep.raised()) {  // how many reach the threshold is not known then, unless this is all there
                         // is
    cut_short_ = true;
    pending_.threshold = buckets_.size() == 1 ? complete_from : kInfinity;
    pending_.above = out.size();
    append_tops(pending_, out, out.size());
  }
  Outcome outcome{.tally = sweep.tally(), .trimmed = sweep.trimmed(), .passes = 1};
  outcome.tally.kept = out.size();
  if (outcome.trimmed > 0) outcome.tally.kept_energy = kernels::energy(out.values());
  return outcome;
}

void Selector::count_segments(const Part& part, const Selection& selection) {
  auto from = std::as_const(selection).indices();
  for (std::size_t first = 0; first < part.size; first += segment_) {
    const auto end = std::ranges::lower_bound(from, first + segment_);
    steering_.count(part.segment + first / segment_, static_cast<std::size_t>(end - from.begin()));
    from = from.subspan(static_cast<std::size_t>(end - from.begin()));
  }
}

// Each layer gets its share of the bucket's entries, rounded down, but at least one.
Outcome Selector::select_layerwise(std::size_t bucket, const Contribution& contribution,
                                   std::span<float> residual, Selection& out) {
  Outcome outcome;
  const double density = static_cast<double>(amounts_[bucket].keep) /
                         std::max(1.0, static_cast<double>(residual.size()));
  for (const Part& layer : layers_[bucket]) {
    const auto share = static_cast<std::size_t>(density * static_cast<double>(layer.size));
    const std::size_t keep =
        density == 0 ? 0 : std::clamp<std::size_t>(share, 1, std::max<std::size_t>(layer.size, 1));
    layer_.clear();
    const Outcome one =
        select_exact(layer, std::min(keep, layer.size), contribution, residual, layer_);
    const Room room = out.room(layer_.size());
    std::ranges::copy(layer_.indices(), room.indices.begin());
    std::ranges::copy(layer_.values(), room.values.begin());
    out.resize(out.size() + layer_.size());
    outcome.tally += one.tally;
    outcome.trimmed += one.trimmed;
    outcome.passes = std::max(outcome.passes, one.passes);
  }
  return outcome;
}

// As published: bisect a threshold between the mean and the largest magnitude, remembering the
// lowest one that at most `keep` entries reach and the highest one that more do. All of the former
// are kept, and of those in between as many as are missing, here from the lowest index on (the
// authors start at a random one).
Outcome Selector::select_mstopk(std::size_t bucket, const Contribution& contribution,
                                std::span<float> residual, Selection& out) {
  const Part& part = buckets_[bucket];
  const std::size_t keep = amounts_[bucket].keep;
  const Sampling sampling = more_sample(pending_.sample, pending_.period, 0, part.size);
  Outcome outcome{
      .tally = accumulate_only(contribution, residual, sampling), .trimmed = 0, .passes = 1};
  shrink_sample(pending_.sample, sampling, outcome.tally.sampled);
  pending_.complete_from = kInfinity;  // ties and places decide what is kept, so the gain curve
                                       // comes from the sample alone
  pending_.threshold = kInfinity;
  if (keep == 0) return outcome;

  double sum = 0;
  float largest = 0;
  for (const float x : residual) {
    sum += magnitude(x);
    largest = std::max(largest, magnitude(x));
  }
  const double mean = sum / static_cast<double>(part.size);
  float sure = kInfinity, possible = 0;
  std::size_t surely_kept = 0;
  double low = 0, high = 1;
  for (int round = 0; round < kMsTopkRounds; ++round) {
    const double ratio = (low + high) / 2;
    const auto threshold = static_cast<float>(mean + ratio * (largest - mean));
    const std::size_t count = kernels::count_at_least(residual, threshold);
    if (count <= keep) {
      high = ratio;
      if (count > surely_kept) std::tie(surely_kept, sure) = std::pair(count, threshold);
    } else {
      low = ratio;
      possible = threshold;
    }
  }
  Sweep sweep(part, segment_, residual, part.size, possible, out);
  const double density = static_cast<double>(keep) / static_cast<double>(part.size);
  sweep.run(density, [&](std::size_t first, std::size_t count, const Criterion& criterion,
                         const Room& room) {
    return kernels::select(residual.subspan(first, count), criterion, room);
  });

  std::size_t missing = keep - surely_kept;
  std::size_t kept = 0;
  for (std::size_t j = 0; j < out.size(); ++j) {
    const std::uint32_t index = out.indices()[j];
    const float value = out.values()[j];
    const bool is_sure = magnitude_bits(value) >= magnitude_bits(sure);
    if (!is_sure && missing == 0) {
      residual[index] = value;
      continue;
    }
    if (!is_sure) --missing;
    out.indices()[kept] = index;
    out.values()[kept++] = value;
  }
  outcome.trimmed = out.size() - kept;
  out.resize(kept);
  outcome.passes += 1 + kMsTopkRounds + 1;
  outcome.tally.kept = kept;
  outcome.tally.kept_energy = kernels::energy(out.values());
  return outcome;
}

// The threshold moved, so what was counted reached different ones: what is known is what reached
// the highest.
void Selector::only_tops_from(float threshold) {
  const auto all = static_cast<double>(pending_.tops.size());
  std::erase_if(pending_.tops, [&](float x) { return x < threshold; });
  pending_.threshold = threshold;
  pending_.above =
      static_cast<std::size_t>(static_cast<double>(pending_.above) *
                               static_cast<double>(pending_.tops.size()) / std::max(all, 1.0));
}

void Selector::end_step() {
  require(std::exchange(step_begun_, false), "a step ends that never began");
  if (method_ == Method::kApproximate) {
    // Without a threshold each bucket kept its own share: that is typical only of a model in one
    // bucket. A step that only accumulated selected nothing anywhere.
    const bool typical = selected_ && (threshold_ > 0 ? !cut_short_ : buckets_.size() == 1);
    steering_.end_step(typical ? Steering::Counts::kTypical : Steering::Counts::kNot);
    if (steering_.moved() && !cut_short_) only_tops_from(steering_.highest_threshold());
  }
  if (pending_.threshold == kInfinity) {
    pending_.above = 0;
    pending_.tops.clear();
  }
  model_.learn(pending_);
  for (std::size_t p = 0; p < trackers_.size(); ++p) {
    if (pending_parts_[p].entries > 0) trackers_[p].learn(pending_parts_[p]);
    pending_parts_[p].clear();
  }
}

}  // namespace pliant::compress
