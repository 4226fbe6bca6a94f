// SPDX-License-Identifier: MIT
// Picks, from accumulated, what is sent. One Selector serves the buckets of one model, step after
// step:
//
//   Selector selector(Method::kApproximate, bucket_sizes);
//   selector.aim(amounts);                                  // when the plan changes
//   for each bucket: selector.select(b, Gradient{gradient}, residual, selection);
//   selector.end_step();
//
// Each select() adds the contribution to the residual, takes the selected entries out of it and
// leaves all others in it, nearly always in a single pass over memory. After the first few steps
// nothing is allocated.
//
// * exact: exactly `keep` entries of each bucket, the largest by the total order of trim.h. The
// pass uses a threshold aimed
//   low by 2.5 standard errors of the sample, then trims. Whatever the data do, the result is
//   exact, after at most 2 passes.
// * approximate: one threshold for all buckets, so that selection is over the whole model although
// buckets come one by one.
//   The total is within 5 % of the sum of `keep` from the fourth step on, if that is at least
//   5,000, also while the distribution drifts: steering.h corrects the threshold within a step. (A
//   jump in scale costs another three steps.) No bucket exceeds its quota.
// * layerwise, mstopk: the baselines of the field. Layer-wise top-k is exact within each layer.
// MSTopk finds a threshold by
//   25 rounds of bisection between mean and largest magnitude, each a pass over memory.
//
// Used by one thread at a time. Never reads a clock; the same inputs give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "pliant/compress/picture.h"
#include "pliant/compress/selection.h"
#include "pliant/compress/steering.h"
#include "pliant/kernels/select.h"

namespace pliant::compress {

enum class Method : std::uint8_t { kExact, kApproximate, kLayerwise, kMsTopk };

// What a rank adds. Progress is parameters - reference; afterwards parameters = reference, and the
// caller adds what it sends, as receivers decode it, to both at the selected indices.
struct Gradient {
  std::span<const float> values;
};
struct Progress {
  std::span<float> parameters;
  std::span<const float> reference;
};
using Contribution = std::variant<Gradient, Progress>;

// How much of one bucket is wanted.
struct Amount {
  std::size_t keep = 0;  // at most the bucket's size
  // No selection is larger; approximate only. The other methods never exceed `keep`, but for
  // layer-wise, which takes at least one entry of each layer.
  std::size_t quota = 0;
};

struct Outcome {
  kernels::Tally tally;     // of accumulated and of what is finally kept
  std::size_t trimmed = 0;  // entries at or above the threshold that went back to the residual
  int passes = 0;           // over all entries of the bucket
};

class Selector {
 public:
  // Indices are 32 bits: no bucket has more than 2^32 entries. Layer-wise, `layers` are the sizes
  // of each bucket's layers, in order, and add up to the bucket's size.
  Selector(Method method, std::vector<std::size_t> bucket_sizes,
           std::vector<std::vector<std::size_t>> layers = {});

  // From the next step on, this much of each bucket.
  void aim(std::vector<Amount> amounts);

  // Replaces `out`. The residual must be finite and stays so.
  Outcome select(std::size_t bucket, const Contribution& contribution, std::span<float> residual,
                 Selection& out);

  // The same without selecting, for ranks that follow a leader's indices: they sample, since they
  // lead soon.
  Outcome accumulate(std::size_t bucket, const Contribution& contribution,
                     std::span<float> residual);

  // After all buckets of a step: what they showed becomes the next step's threshold.
  void end_step();

  // What the last step showed of the whole model, for the gain curve.
  [[nodiscard]] const Picture& picture() const { return model_.picture(); }

  // Between steps. A selector that gets back its state goes on as if it had never stopped, bit for
  // bit.
  struct State {
    Tracker model;
    std::vector<Tracker> parts;
    Steering steering;
    bool operator==(const State&) const = default;
  };
  [[nodiscard]] State state() const { return {model_, trackers_, steering_}; }
  void restore(State state);

 private:
  struct Part {  // entries selected together: a bucket, or one of its layers
    std::size_t first = 0;
    std::size_t size = 0;
    std::size_t tracker = 0;
    std::size_t segment = 0;  // number of its first segment among all of the model's
  };
  class Sweep;

  Outcome select_exact(const Part& part, std::size_t keep, const Contribution& contribution,
                       std::span<float> residual, Selection& out);
  Outcome select_approximate(std::size_t bucket, const Contribution& contribution,
                             std::span<float> residual, Selection& out);
  Outcome select_layerwise(std::size_t bucket, const Contribution& contribution,
                           std::span<float> residual, Selection& out);
  Outcome select_mstopk(std::size_t bucket, const Contribution& contribution,
                        std::span<float> residual, Selection& out);
  void begin_step();
  void count_segments(const Part& part, const Selection& selection);
  void only_tops_from(float threshold);

  Method method_;
  std::vector<Part> buckets_;
  std::vector<std::vector<Part>> layers_;  // layer-wise only
  std::vector<Amount> amounts_;
  std::size_t entries_ = 0;
  std::size_t keep_ = 0;  // of the whole model

  std::size_t segment_ = 0;        // entries of a segment
  std::size_t segments_ = 0;       // of all buckets
  Steering steering_;              // approximate only
  Tracker model_;                  // of all buckets together
  std::vector<Tracker> trackers_;  // of each part, where parts have thresholds of their own
  bool step_begun_ = false;
  float threshold_ = 0;     // of the model, as the step under way began
  bool cut_short_ = false;  // some bucket held more than it had room for
  bool selected_ = false;   // some bucket did, not only accumulate
  Picture pending_;         // what its buckets have shown so far
  std::vector<Picture> pending_parts_;
  Selection layer_;  // scratch
};

}  // namespace pliant::compress
