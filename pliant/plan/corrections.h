// SPDX-License-Identifier: MIT
// Corrections: measured time of an exchange / its price, learnt per scheme and size class. observe
// writes them and the model reads them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pliant/plan/plan.h"

namespace pliant::plan {

// Size classes by the bytes on an exchange's critical path: below 16 KiB a message is mostly
// latency, up to 256 KiB it fits in the socket buffers, up to 4 MiB transports still open their
// windows, beyond that they stream. A factor of 16 each.
inline constexpr std::array<double, 3> kSizeClasses = {16.0 * 1024, 256.0 * 1024, 4096.0 * 1024};

// The backend's own all-reduce is another program than ours, so it has a row of its own.
inline constexpr std::size_t kCorrectedSchemes = kSchemes.size() + 1;
inline constexpr std::size_t kCorrections = kCorrectedSchemes * (kSizeClasses.size() + 1);

[[nodiscard]] constexpr std::size_t size_class(double bytes) {
  std::size_t c = 0;
  while (c < kSizeClasses.size() && bytes >= kSizeClasses.at(c)) ++c;
  return c;
}

// Where the correction of an exchange under this plan is kept.
[[nodiscard]] constexpr std::size_t correction_index(const Plan& plan, double bytes) {
  const bool own = plan.scheme == Scheme::kDense && plan.reduce == AllReduce::kBackend;
  const std::size_t row = own ? kSchemes.size() : static_cast<std::size_t>(plan.scheme);
  return row * (kSizeClasses.size() + 1) + size_class(bytes);
}

struct Corrections {
  std::array<double, kCorrections> factors = all_ones();  // time seen / time priced
  bool operator==(const Corrections&) const = default;

 private:
  static constexpr std::array<double, kCorrections> all_ones() {
    std::array<double, kCorrections> ones{};
    ones.fill(1);
    return ones;
  }
};

}  // namespace pliant::plan
