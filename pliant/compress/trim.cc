// SPDX-License-Identifier: MIT
#include "pliant/compress/trim.h"

#include <array>

#include "pliant/common/errors.h"
#include "pliant/kernels/magnitude.h"

namespace pliant::compress {
namespace {

using kernels::magnitude_bits;

// The 31 bits of a magnitude, decided from the top in three digits: the histogram of a digit fits the first-level cache.
struct Digit {
  int shift;
  int bits;
};
constexpr std::array<Digit, 3> kDigits = {Digit{20, 11}, Digit{10, 10}, Digit{0, 10}};
constexpr std::size_t kLargestDigit = 1U << 11U;

// Neighbours often share a digit; counting them in different histograms keeps one increment from waiting for the last.
constexpr std::size_t kHistograms = 4;

}  // namespace

Cut find_cut(std::span<const float> values, std::size_t keep) {
  require(keep >= 1 && keep <= values.size(), "the {} largest of {} entries", keep, values.size());
  std::uint32_t prefix = 0;   // the digits of the cut that are known
  std::size_t wanted = keep;  // entries still to be found among those with that prefix
  for (const auto [shift, bits] : kDigits) {
    std::array<std::array<std::uint32_t, kLargestDigit>, kHistograms> histograms{};
    const std::uint32_t digit_mask = (1U << bits) - 1;
    const std::uint64_t known = std::uint64_t{prefix} >> (shift + bits);
    for (std::size_t j = 0; j < values.size(); ++j) {
      const std::uint32_t key = magnitude_bits(values[j]);
      if (std::uint64_t{key} >> (shift + bits) == known) ++histograms[j % kHistograms][(key >> shift) & digit_mask];
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

Cut trim(Selection& selection, std::size_t keep, std::span<float> residual) {
  const Cut cut = find_cut(selection.values(), keep);
  const auto indices = selection.indices();
  const auto values = selection.values();
  std::size_t equals = cut.equals;
  std::size_t kept = 0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::uint32_t index = indices[j];
    const float value = values[j];
    indices[kept] = index;
    values[kept] = value;
    const std::uint32_t key = magnitude_bits(value);
    if (key > cut.magnitude_bits) {
      ++kept;
    } else if (key == cut.magnitude_bits && equals > 0) {
      --equals;
      ++kept;
    } else {
      residual[index] = value;
    }
  }
  selection.resize(kept);
  return cut;
}

}  // namespace pliant::compress
