// SPDX-License-Identifier: MIT
// Passes over a bucket that add the contribution to the residual and take out the large entries in
// the same sweep.
//
// accumulated = contribution + residual. Entries with |accumulated| >= threshold leave the
// residual, which is +0 there afterwards, and are written to `out` in index order; all others stay
// in the residual. Nothing is lost: kept values and new residual together are accumulated, bit for
// bit.
//
// A contribution that is not finite, or that would make accumulated overflow, is counted and left
// out: that residual entry keeps its old value (and may still be selected). So the residual stays
// finite whatever comes in.
//
// Every function runs on the best SIMD target of this CPU and gives the same bits on each;
// pliant::kernels::scalar has the plain twins that say what those bits are. Nothing allocates,
// throws or keeps a pointer. Spans of one call have the same length and do not overlap; any length
// and any alignment will do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pliant::kernels {

// Sums of squares are kept in this many double lanes, entry i in lane i mod 16, added up in order
// at the end: the same for every vector width. A float squared is exact in double and can neither
// overflow nor vanish there.
inline constexpr std::size_t kEnergyLanes = 16;

// Above this density a vector of 16 holds a selected entry so often (one time in three) that
// compressing every vector beats scanning its mask for bits.
inline constexpr float kCompressDensity = 0.025F;

// Passes go block by block: 16 KiB of floats, so that what a block wrote is still in the
// first-level cache when its kept entries are summed.
inline constexpr std::size_t kBlock = 4096;

struct Criterion {
  float threshold = 0;  // compared by bit pattern: 0 selects everything, infinity nothing
  float expected_density =
      0.01F;  // chooses how entries are written out; never changes what is written
  std::uint32_t first_index = 0;  // index of the first entry of the spans within the bucket
};

// Where selected entries go. There must be room for as many as the spans hold, whatever the
// threshold: entries beyond the last kept one may be overwritten.
struct Room {
  std::span<std::uint32_t> indices;
  std::span<float> values;
};

// Where sampled magnitudes of accumulated go, kept or not: one from every `period` entries, room
// for sample_room(n, period). Without magnitudes there is no sample.
struct Sampling {
  std::span<float> magnitudes;
  std::uint32_t period = 256;  // a power of two, at most kBlock
  std::uint64_t first_group =
      0;  // number of the first group of the spans within the bucket: places are picked by group
};

[[nodiscard]] constexpr std::size_t sample_room(std::size_t n, std::uint32_t period) {
  return (n + period - 1) / period;
}

// Counts and sums of one pass.
struct Tally {
  std::size_t kept = 0;
  std::size_t non_finite = 0;  // contributions left out
  std::size_t sampled = 0;
  double kept_energy = 0;  // sum of squares of the kept values
  double energy = 0;       // sum of squares of accumulated

  Tally& operator+=(const Tally& other);
  bool operator==(const Tally&) const = default;
};

// Contribution = gradient.
Tally accumulate_select(std::span<const float> gradient, std::span<float> residual,
                        const Criterion& criterion, const Room& out, const Sampling& sampling = {});

// Contribution = parameters - reference, rounded once. Afterwards parameters = reference
// everywhere: what was not selected has left the parameters for the residual, and the caller adds
// the values that were sent, as the receivers will decode them, to both parameters and reference at
// the kept indices.
Tally progress_select(std::span<float> parameters, std::span<const float> reference,
                      std::span<float> residual, const Criterion& criterion, const Room& out,
                      const Sampling& sampling = {});

// No contribution: selects from the residual alone.
Tally select(std::span<float> residual, const Criterion& criterion, const Room& out,
             const Sampling& sampling = {});

// The first two passes without selection, for ranks that do not lead (they sample: they lead soon).
Tally accumulate(std::span<const float> gradient, std::span<float> residual,
                 const Sampling& sampling = {});
Tally progress_accumulate(std::span<float> parameters, std::span<const float> reference,
                          std::span<float> residual, const Sampling& sampling = {});

namespace scalar {
Tally accumulate_select(std::span<const float> gradient, std::span<float> residual,
                        const Criterion& criterion, const Room& out, const Sampling& sampling = {});
Tally progress_select(std::span<float> parameters, std::span<const float> reference,
                      std::span<float> residual, const Criterion& criterion, const Room& out,
                      const Sampling& sampling = {});
Tally select(std::span<float> residual, const Criterion& criterion, const Room& out,
             const Sampling& sampling = {});
Tally accumulate(std::span<const float> gradient, std::span<float> residual,
                 const Sampling& sampling = {});
Tally progress_accumulate(std::span<float> parameters, std::span<const float> reference,
                          std::span<float> residual, const Sampling& sampling = {});
}  // namespace scalar

}  // namespace pliant::kernels
