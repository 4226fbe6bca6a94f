// SPDX-License-Identifier: MIT
#include "pliant/engine/units.h"

#include <algorithm>

#include "pliant/common/errors.h"
#include "pliant/plan/fusion.h"

namespace pliant::engine {
namespace {

// DDP's own default. Smaller units start earlier, larger ones pay latency less often.
constexpr std::size_t kUnitEntries = (std::size_t{25} << 20) / sizeof(float);
constexpr std::size_t kNowhere = ~std::size_t{0};

}  // namespace

Arrangement::Arrangement(std::vector<std::size_t> parameter_sizes, Units units)
    : sizes_(std::move(parameter_sizes)),
      units_(std::move(units)),
      begins_(sizes_.size(), kNowhere) {
  for (const auto& unit : units_) {
    unit_begins_.push_back(size_);
    for (const int parameter : unit) {
      require(parameter >= 0 && static_cast<std::size_t>(parameter) < sizes_.size(),
              "engine: parameter {} of {}", parameter, sizes_.size());
      const auto p = static_cast<std::size_t>(parameter);
      require(begins_[p] == kNowhere, "engine: parameter {} is in two units", parameter);
      begins_[p] = size_;
      size_ += sizes_[p];
    }
  }
  unit_begins_.push_back(size_);
  for (std::size_t p = 0; p < begins_.size(); ++p)
    require(begins_[p] != kNowhere, "engine: parameter {} is in no unit", p);
}

Range Arrangement::place(int parameter) const {
  const auto p = static_cast<std::size_t>(parameter);
  return {begins_[p], sizes_[p]};
}

Range Arrangement::entries(const Range& units) const {
  return {unit_begins_[units.begin], unit_begins_[units.end()] - unit_begins_[units.begin]};
}

std::vector<Range> Arrangement::groups(plan::Fusion fusion) const {
  std::vector<std::size_t> lengths;
  for (std::size_t u = 0; u < units_.size(); ++u) lengths.push_back(entries({u, 1}).count);
  std::vector<Range> groups;
  for (const std::size_t count : plan::group_counts(fusion, lengths))
    groups.push_back({groups.empty() ? 0 : groups.back().end(), count});
  return groups;
}

Units default_units(std::span<const std::size_t> parameter_sizes) {
  Units units;
  std::size_t filled = kUnitEntries;
  for (auto p = static_cast<int>(parameter_sizes.size()) - 1; p >= 0; --p) {
    if (filled >= kUnitEntries) {
      units.emplace_back();
      filled = 0;
    }
    units.back().push_back(p);
    filled += parameter_sizes[static_cast<std::size_t>(p)];
  }
  return units;
}

void rearrange(const Arrangement& from, const Arrangement& to, std::span<float> entries) {
  const std::vector<float> old(entries.begin(), entries.end());
  for (std::size_t p = 0; p < from.parameters(); ++p) {
    const Range source = from.place(static_cast<int>(p));
    std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(source.begin), source.count,
                entries.begin() + static_cast<std::ptrdiff_t>(to.place(static_cast<int>(p)).begin));
  }
}

}  // namespace pliant::engine
