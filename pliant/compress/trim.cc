// SPDX-License-Identifier: MIT
#include "pliant/compress/trim.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "pliant/common/errors.h"
#include "pliant/kernels/magnitude.h"
#include "pliant/kernels/partition.h"
#include "pliant/kernels/sparse.h"

namespace pliant::compress {
namespace {

using kernels::magnitude_bits;

// The 31 bits of a magnitude, decided from the top in three digits: the histogram of a digit fits
// the first-level cache.
struct Digit {
  int shift;
  int bits;
};
constexpr std::array<Digit, 3> kDigits = {Digit{20, 11}, Digit{10, 10}, Digit{0, 10}};
constexpr std::size_t kLargestDigit = 1U << 11U;

// Neighbours often share a digit; counting them in different histograms keeps one increment from
// waiting for the last.
constexpr std::size_t kHistograms = 4;

// Decides the three digits one after the other; linear whatever the values.
Cut find_cut_by_digits(std::span<const float> values, std::size_t keep) {
  std::uint32_t prefix = 0;   // the digits of the cut that are known
  std::size_t wanted = keep;  // entries still to be found among those with that prefix
  for (const auto [shift, bits] : kDigits) {
    std::array<std::array<std::uint32_t, kLargestDigit>, kHistograms> histograms{};
    const std::uint32_t digit_mask = (1U << bits) - 1;
    const std::uint64_t known = std::uint64_t{prefix} >> (shift + bits);
    for (std::size_t j = 0; j < values.size(); ++j) {
      const std::uint32_t key = magnitude_bits(values[j]);
      if (std::uint64_t{key} >> (shift + bits) == known)
        ++histograms[j % kHistograms][(key >> shift) & digit_mask];
    }
    for (std::uint32_t digit = digit_mask;; --digit) {
      std::size_t count = 0;
      for (const auto& histogram : histograms) count += histogram[digit];
      if (count >= wanted) {
        prefix |= digit << shift;
        break;
      }
      wanted -= count;
    }
  }
  return {.magnitude_bits = prefix, .equals = wanted};
}

// Of the entries with exactly that magnitude the last `count` lose.
void drop_last_equals(Selection& selection, std::size_t count, std::uint32_t bits,
                      std::span<float> residual) {
  std::size_t stay = selection.size();
  while (count > 0) {
    if (magnitude_bits(selection.values()[--stay]) == bits) --count;
  }
  std::size_t kept = stay;
  for (std::size_t j = stay; j < selection.size(); ++j) {
    const float value = selection.values()[j];
    const std::uint32_t index = selection.indices()[j];
    if (magnitude_bits(value) == bits) {
      residual[index] = value;
      continue;
    }
    selection.indices()[kept] = index;
    selection.values()[kept++] = value;
  }
  selection.resize(kept);
}

// So many values, evenly spread, say where the cut is to within 3 % of the values (4 standard
// deviations, either side).
constexpr std::size_t kScouts = 1024;
constexpr double kDeviations = 4;

// Kept from call to call, so that rounds do not allocate.
struct Scratch {
  std::vector<float> scouts;
  std::vector<float> inside;
  Selection losers;
};
Scratch& scratch() {
  thread_local Scratch memory;
  return memory;
}

}  // namespace

// Looks where the cut must be, then counts above that and decides among the few there. If they
// looked in the wrong place, which only an odd order of the values brings about, all values are
// decided on.
Cut find_cut(std::span<const float> values, std::size_t keep) {
  require(keep >= 1 && keep <= values.size(), "the {} largest of {} entries", keep, values.size());
  if (values.size() < 4 * kScouts) return find_cut_by_digits(values, keep);
  auto& [scouts, inside, losers] = scratch();
  scouts.clear();
  const std::size_t stride = values.size() / kScouts;
  for (std::size_t j = stride / 2; j < values.size(); j += stride)
    scouts.push_back(kernels::magnitude(values[j]));
  std::ranges::sort(scouts, std::greater<>());
  const auto count = static_cast<double>(scouts.size());
  const double share = static_cast<double>(keep) / static_cast<double>(values.size());
  const double deviation = kDeviations * std::sqrt(count * share * (1 - share)) + kDeviations;
  const double first = share * count - deviation, last = share * count + deviation;
  const float high =
      first < 0 ? std::numeric_limits<float>::infinity() : scouts[static_cast<std::size_t>(first)];
  const float low = last >= count ? 0 : scouts[static_cast<std::size_t>(last)];
  inside.resize(std::max(inside.size(), values.size()));
  const kernels::Bracket found = kernels::bracket(values, low, high, inside);
  if (keep <= found.above || keep > found.above + found.inside)
    return find_cut_by_digits(values, keep);
  return find_cut_by_digits(std::span(inside).first(found.inside), keep - found.above);
}

Cut trim(Selection& selection, std::size_t keep, std::span<float> residual) {
  const Cut cut = find_cut(selection.values(), keep);
  Selection& losers = scratch().losers;
  losers.clear();
  const std::size_t size = selection.size();
  const auto smallest = std::bit_cast<float>(cut.magnitude_bits);
  const std::size_t kept =
      kernels::split_below(selection.indices(), selection.values(), smallest, losers.room(size));
  losers.resize(size - kept);
  selection.resize(kept);
  kernels::scatter(residual, losers.indices(), losers.values());
  if (kept > keep) drop_last_equals(selection, kept - keep, cut.magnitude_bits, residual);
  return cut;
}

}  // namespace pliant::compress
