// SPDX-License-Identifier: MIT
#include "pliant/kernels/select.h"

#include <bit>
#include <cstring>

#include "pliant/kernels/magnitude.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pliant/kernels/select.cc"
#include <hwy/foreach_target.h>  // compiles what follows once per target
#include <hwy/highway.h>

#include "pliant/kernels/ahead-inl.h"
#include "pliant/kernels/energy-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pliant::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR  // without SIMD the twin is the kernel

using scalar::accumulate;
using scalar::accumulate_select;
using scalar::progress_accumulate;
using scalar::progress_select;
using scalar::select;

#else

using Vector = hn::Vec<Floats>;
using Mask = hn::Mask<Floats>;
using Ints = hn::RebindToSigned<Floats>;
using Unsigned = hn::RebindToUnsigned<Floats>;

// A group: enough independent work to cover the latency of the additions, one test for non-finite
// entries and one bit scan for all. A multiple of 16 entries on every target.
static_assert(kGroup % kEnergyLanes == 0 && kBlock % kGroup == 0);

// Accumulated entries and their magnitudes, in registers.
struct Group {
  Vector x[kUnroll];
  hn::Vec<Ints> magnitude[kUnroll];
};

// Where contributions come from. `vector` is asked once for each place, after `entry` was asked for
// sampled places.
struct Gradient {
  using Lines = Ahead<8>;
  const float* gradient;
  HWY_ATTR HWY_INLINE Vector vector(std::size_t i) const {
    return hn::LoadU(Floats(), gradient + i);
  }
  HWY_ATTR HWY_INLINE void prefetch(std::size_t i) const { hwy::Prefetch(gradient + i); }
  [[nodiscard]] float entry(std::size_t i) const { return gradient[i]; }
  void consume(std::size_t /*i*/) const {}
};

// Three arrays: eight pages of each would be more than the core follows. Four took 0.9 of the time
// on Zen 3.
struct Progress {
  using Lines = Ahead<4>;
  float* parameters;
  const float* reference;
  HWY_ATTR HWY_INLINE Vector vector(std::size_t i) const {
    const auto base = hn::LoadU(Floats(), reference + i);
    const auto progress = hn::Sub(hn::LoadU(Floats(), parameters + i), base);
    hn::StoreU(base, Floats(), parameters + i);
    return progress;
  }
  HWY_ATTR HWY_INLINE void prefetch(std::size_t i) const {
    prefetch_to_write(parameters + i);
    hwy::Prefetch(reference + i);
  }
  [[nodiscard]] float entry(std::size_t i) const { return parameters[i] - reference[i]; }
  void consume(std::size_t i) const { parameters[i] = reference[i]; }
};

struct Nothing {
  using Lines = Ahead<8>;
  HWY_ATTR HWY_INLINE Vector vector(std::size_t /*i*/) const { return hn::Set(Floats(), -0.0F); }
  void prefetch(std::size_t /*i*/) const {}
  [[nodiscard]] float entry(std::size_t /*i*/) const { return -0.0F; }
  void consume(std::size_t /*i*/) const {}
};

HWY_ATTR HWY_INLINE hn::Vec<Ints> magnitudes(Vector x) { return hn::BitCast(Ints(), hn::Abs(x)); }

// Magnitudes as signed integers order like the bit patterns; > threshold - 1 is >= threshold, also
// for 0.
HWY_ATTR HWY_INLINE Mask at_least(hn::Vec<Ints> magnitude, hn::Vec<Ints> threshold_minus_1) {
  return hn::RebindMask(Floats(), hn::Gt(magnitude, threshold_minus_1));
}

HWY_ATTR HWY_INLINE hn::Vec<Ints> threshold_minus_1(float threshold) {
  return hn::Set(Ints(), static_cast<std::int32_t>(magnitude_bits(threshold)) - 1);
}

HWY_ATTR HWY_INLINE std::uint64_t mask_bits(Mask mask) {
  std::uint64_t bits = 0;
  hn::StoreMaskBits(Floats(), mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

// Selected entries so far, with the energy of all complete groups of 16 among them.
class Taken {
 public:
  explicit HWY_ATTR Taken(const Room& out)
      : indices_(out.indices.data()), values_(out.values.data()) {}

  HWY_INLINE void take(std::uint32_t index, float value) {
    indices_[count_] = index;
    values_[count_++] = value;
  }

  // Those entries of x whose bit is set. The first two places are written whether there are any or
  // not, and overwritten by the next group if not: at densities around 1 % a branch on it would be
  // mispredicted every other time.
  HWY_INLINE void take_few(std::uint64_t bits, const float* x, std::uint32_t first_index) {
    const auto count = static_cast<std::size_t>(std::popcount(bits));
    for (std::size_t j = 0; j < 2; ++j, bits &= bits - 1) put(count_ + j, bits, x, first_index);
    for (std::size_t j = 2; HWY_UNLIKELY(j < count); ++j, bits &= bits - 1)
      put(count_ + j, bits, x, first_index);
    count_ += count;
  }

  HWY_ATTR HWY_INLINE void take(Mask mask, hn::Vec<Unsigned> indices, Vector values) {
    const auto index_mask = hn::RebindMask(Unsigned(), mask);
    hn::StoreU(hn::Compress(indices, index_mask), Unsigned(), indices_ + count_);
    hn::StoreU(hn::Compress(values, mask), Floats(), values_ + count_);
    count_ += hn::CountTrue(Floats(), mask);
  }

  HWY_ATTR HWY_INLINE void end_block() {
    const std::size_t whole = (count_ - summed_) / kEnergyLanes * kEnergyLanes;
    energy_.add_groups(values_ + summed_, whole);
    summed_ += whole;
  }

  HWY_ATTR void finish(Tally& tally) {
    end_block();
    tally.kept = count_;
    tally.kept_energy = energy_.total(values_ + summed_, count_ - summed_);
  }

 private:
  HWY_INLINE void put(std::size_t place, std::uint64_t bits, const float* x,
                      std::uint32_t first_index) {
    const auto at = static_cast<std::size_t>(std::countr_zero(bits)) % kGroup;
    indices_[place] = first_index + static_cast<std::uint32_t>(at);
    values_[place] = x[at];
  }

  std::uint32_t* indices_;
  float* values_;
  std::size_t count_ = 0;
  std::size_t summed_ = 0;
  Energy energy_;
};

// What happens to a group of accumulated entries once they are known: three ways to write them out.

// For low densities: the few selected ones are found by scanning the mask's bits.
class BitScan {
 public:
  HWY_ATTR BitScan(const Criterion& criterion, const Room& out)
      : limit_(threshold_minus_1(criterion.threshold)),
        threshold_(magnitude_bits(criterion.threshold)),
        first_index_(criterion.first_index),
        taken_(out) {}

  HWY_ATTR HWY_INLINE void group(const Group& group, float* residual, std::size_t i) {
    HWY_ALIGN float x[kGroup];
    std::uint64_t bits = 0;
    for (std::size_t v = 0; v < kUnroll; ++v) {
      const auto selected = at_least(group.magnitude[v], limit_);
      hn::Store(group.x[v], Floats(), x + v * kLanes);
      hn::StoreU(hn::IfThenZeroElse(selected, group.x[v]), Floats(), residual + i + v * kLanes);
      bits |= mask_bits(selected) << (v * kLanes);
    }
    taken_.take_few(bits, x, first_index_ + static_cast<std::uint32_t>(i));
  }

  HWY_INLINE void entry(float x, float* residual, std::size_t i) {
    const bool selected = magnitude_bits(x) >= threshold_;
    residual[i] = selected ? 0.0F : x;
    if (selected) taken_.take(first_index_ + static_cast<std::uint32_t>(i), x);
  }

  HWY_ATTR HWY_INLINE void end_block() { taken_.end_block(); }
  HWY_ATTR HWY_INLINE void finish(Tally& tally) { taken_.finish(tally); }

 protected:
  hn::Vec<Ints> limit_;
  std::uint32_t threshold_;
  std::uint32_t first_index_;
  Taken taken_;
};

// For high densities: compress every vector, no branches. Whole vectors are stored at the end of
// what was taken, which never reaches further than the entries already read: hence the room for all
// that the header asks for.
class CompressStore : public BitScan {
 public:
  HWY_ATTR CompressStore(const Criterion& criterion, const Room& out)
      : BitScan(criterion, out), next_(hn::Iota(Unsigned(), criterion.first_index)) {}

  HWY_ATTR HWY_INLINE void group(const Group& group, float* residual, std::size_t i) {
    for (std::size_t v = 0; v < kUnroll; ++v) {
      const auto selected = at_least(group.magnitude[v], limit_);
      hn::StoreU(hn::IfThenZeroElse(selected, group.x[v]), Floats(), residual + i + v * kLanes);
      taken_.take(selected, next_, group.x[v]);
      next_ = hn::Add(next_, hn::Set(Unsigned(), static_cast<std::uint32_t>(kLanes)));
    }
  }

 private:
  hn::Vec<Unsigned> next_;
};

// For ranks that do not select.
class StoreOnly {
 public:
  HWY_ATTR HWY_INLINE void group(const Group& group, float* residual, std::size_t i) const {
    for (std::size_t v = 0; v < kUnroll; ++v)
      hn::StoreU(group.x[v], Floats(), residual + i + v * kLanes);
  }
  HWY_INLINE void entry(float x, float* residual, std::size_t i) const { residual[i] = x; }
  void end_block() const {}
  void finish(Tally& /*tally*/) const {}
};

// The accumulated() of magnitude.h for a group in which a sum is not finite. Rare: counted and
// mended aside.
HWY_ATTR HWY_NOINLINE std::size_t mend(Group& group, const float* residual, std::size_t i) {
  const auto infinity = hn::Set(Ints(), static_cast<std::int32_t>(kInfinityBits));
  std::size_t non_finite = 0;
  for (std::size_t v = 0; v < kUnroll; ++v) {
    const auto old = hn::LoadU(Floats(), residual + i + v * kLanes);
    const auto finite = hn::RebindMask(Floats(), hn::Lt(group.magnitude[v], infinity));
    const auto old_finite = hn::RebindMask(Floats(), hn::Lt(magnitudes(old), infinity));
    non_finite += kLanes - hn::CountTrue(Floats(), finite);
    group.x[v] = hn::IfThenElse(finite, group.x[v], hn::IfThenElseZero(old_finite, old));
    group.magnitude[v] = magnitudes(group.x[v]);
  }
  return non_finite;
}

template <typename Source>
HWY_ATTR HWY_INLINE void sample_block(const Source& source, const float* residual,
                                      std::size_t begin, std::size_t end, const Sampling& sampling,
                                      Tally& tally) {
  if (sampling.magnitudes.empty()) return;
  std::uint64_t group = sampling.first_group + begin / sampling.period;
  for (std::size_t i = begin; i < end; i += sampling.period, ++group) {
    const std::size_t at = i + sampled_entry(group, sampling.period);
    if (at < end)
      sampling.magnitudes[tally.sampled++] = magnitude(accumulated(residual[at], source.entry(at)));
  }
}

// The pass itself, block by block: sample, then accumulate, sum and write out in groups; the rest
// entry by entry.
template <typename Source, typename Writer>
HWY_ATTR Tally pass(const Source source, float* HWY_RESTRICT residual, std::size_t n, Writer writer,
                    const Sampling& sampling) {
  const auto infinity = hn::Set(Ints(), static_cast<std::int32_t>(kInfinityBits));
  Tally tally;
  Energy energy;
  float tail[kEnergyLanes];
  std::size_t tail_size = 0;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t end = begin + HWY_MIN(kBlock, n - begin);
    sample_block(source, residual, begin, end, sampling, tally);
    std::size_t i = begin;
    for (; i + kGroup <= end; i += kGroup) {
      std::size_t ahead = Source::Lines::of(i);
      for (std::size_t line = 0; line < kGroup; line += kLine, ahead += Source::Lines::kTurn) {
        prefetch_to_write(residual + ahead);
        source.prefetch(ahead);
      }
      Group group;
      auto largest = hn::Zero(Ints());
      for (std::size_t v = 0; v < kUnroll; ++v) {
        group.x[v] =
            hn::Add(hn::LoadU(Floats(), residual + i + v * kLanes), source.vector(i + v * kLanes));
        group.magnitude[v] = magnitudes(group.x[v]);
        largest = hn::Max(largest, group.magnitude[v]);
      }
      if (HWY_UNLIKELY(!hn::AllTrue(Ints(), hn::Lt(largest, infinity))))
        tally.non_finite += mend(group, residual, i);
      for (std::size_t v = 0; v < kUnroll; ++v) energy.add(v * kLanes % kEnergyLanes, group.x[v]);
      writer.group(group, residual, i);
    }
    for (; i < end; ++i) {
      const float added = source.entry(i);
      if (!is_finite(residual[i] + added)) ++tally.non_finite;
      const float x = accumulated(residual[i], added);
      source.consume(i);
      writer.entry(x, residual, i);
      tail[tail_size++] = x;
      if (tail_size < kEnergyLanes) continue;
      energy.add_groups(tail, kEnergyLanes);
      tail_size = 0;
    }
    writer.end_block();
  }
  tally.energy = energy.total(tail, tail_size);
  writer.finish(tally);
  return tally;
}

template <typename Source>
HWY_ATTR Tally selecting_pass(const Source source, std::span<float> residual,
                              const Criterion& criterion, const Room& out,
                              const Sampling& sampling) {
  if (criterion.expected_density < kCompressDensity)
    return pass(source, residual.data(), residual.size(), BitScan(criterion, out), sampling);
  return pass(source, residual.data(), residual.size(), CompressStore(criterion, out), sampling);
}

HWY_ATTR Tally accumulate_select(std::span<const float> gradient, std::span<float> residual,
                                 const Criterion& criterion, const Room& out,
                                 const Sampling& sampling) {
  return selecting_pass(Gradient{gradient.data()}, residual, criterion, out, sampling);
}

HWY_ATTR Tally progress_select(std::span<float> parameters, std::span<const float> reference,
                               std::span<float> residual, const Criterion& criterion,
                               const Room& out, const Sampling& sampling) {
  return selecting_pass(Progress{parameters.data(), reference.data()}, residual, criterion, out,
                        sampling);
}

HWY_ATTR Tally select(std::span<float> residual, const Criterion& criterion, const Room& out,
                      const Sampling& sampling) {
  return selecting_pass(Nothing(), residual, criterion, out, sampling);
}

HWY_ATTR Tally accumulate(std::span<const float> gradient, std::span<float> residual,
                          const Sampling& sampling) {
  return pass(Gradient{gradient.data()}, residual.data(), residual.size(), StoreOnly(), sampling);
}

HWY_ATTR Tally progress_accumulate(std::span<float> parameters, std::span<const float> reference,
                                   std::span<float> residual, const Sampling& sampling) {
  return pass(Progress{parameters.data(), reference.data()}, residual.data(), residual.size(),
              StoreOnly(), sampling);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace pliant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pliant::kernels {

HWY_EXPORT(accumulate_select);
HWY_EXPORT(progress_select);
HWY_EXPORT(select);
HWY_EXPORT(accumulate);
HWY_EXPORT(progress_accumulate);

Tally accumulate_select(std::span<const float> gradient, std::span<float> residual,
                        const Criterion& criterion, const Room& out, const Sampling& sampling) {
  return HWY_DYNAMIC_DISPATCH(accumulate_select)(gradient, residual, criterion, out, sampling);
}

Tally progress_select(std::span<float> parameters, std::span<const float> reference,
                      std::span<float> residual, const Criterion& criterion, const Room& out,
                      const Sampling& sampling) {
  return HWY_DYNAMIC_DISPATCH(progress_select)(parameters, reference, residual, criterion, out,
                                               sampling);
}

Tally select(std::span<float> residual, const Criterion& criterion, const Room& out,
             const Sampling& sampling) {
  return HWY_DYNAMIC_DISPATCH(select)(residual, criterion, out, sampling);
}

Tally accumulate(std::span<const float> gradient, std::span<float> residual,
                 const Sampling& sampling) {
  return HWY_DYNAMIC_DISPATCH(accumulate)(gradient, residual, sampling);
}

Tally progress_accumulate(std::span<float> parameters, std::span<const float> reference,
                          std::span<float> residual, const Sampling& sampling) {
  return HWY_DYNAMIC_DISPATCH(progress_accumulate)(parameters, reference, residual, sampling);
}

}  // namespace pliant::kernels
#endif  // HWY_ONCE
