// SPDX-License-Identifier: MIT
#include "pliant/engine/record_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "pliant/common/errors.h"

namespace pliant::engine {
namespace {

// A rank whose optimizer diverges again and again will not recover by itself.
constexpr int kNotFiniteInARow = 3;

// Ranks diverge one after the other, and a rank that has returned to its reference may be finite
// once more. A rank that was not finite within so many exchanges counts as diverged with the
// others.
constexpr int kForgottenAfter = 8;

// Statistics that change rarely (every few exchanges) must not count as still.
constexpr int kStillAfter = 8;

}  // namespace

std::optional<std::string> RecordChecks::take(std::span<const agree::Record> records,
                                              plan::Kind kind) {
  if (const auto why = agree::disagreement(records)) throw Disagreement(*why);
  check_progress(records);
  if (kind == plan::Kind::kUpdates) note_buffers(records);
  return check_rates(records);
}

void RecordChecks::note_buffers(std::span<const agree::Record> records) {
  const bool changed = std::ranges::any_of(records, [](const agree::Record& record) {
    return (record.flags & agree::kBuffersChanged) != 0;
  });
  still_for_ = changed ? 0 : std::min(still_for_ + 1, kStillAfter);
}

void RecordChecks::restart() {
  not_finite_.clear();
  finite_since_.clear();
  still_for_ = 0;
}

bool RecordChecks::buffers_are_still() const { return still_for_ == kStillAfter; }

void RecordChecks::check_progress(std::span<const agree::Record> records) {
  not_finite_.resize(records.size());
  finite_since_.resize(records.size(), kForgottenAfter);
  for (std::size_t r = 0; r < records.size(); ++r) {
    const bool bad = (records[r].flags & agree::kNotFinite) != 0;
    not_finite_[r] = bad ? not_finite_[r] + 1 : 0;
    finite_since_[r] = bad ? 0 : std::min(finite_since_[r] + 1, kForgottenAfter);
  }
  const auto worst = std::ranges::max_element(not_finite_);
  if (worst == not_finite_.end() || *worst < kNotFiniteInARow) return;
  if (std::ranges::all_of(finite_since_, [](int rounds) { return rounds < kForgottenAfter; })) {
    throw Diverged(
        fmt::format("training diverged: the progress of every rank was infinite or not a number "
                    "lately, that of rank {} in {} exchanges in a row. Start again from a "
                    "checkpoint, with a lower learning rate or with gradients clipped (clip_norm=)",
                    worst - not_finite_.begin(), kNotFiniteInARow));
  }
  throw Disagreement(fmt::format(
      "the progress of rank {} was not finite in {} exchanges in a row, and that of other ranks "
      "was: the learning rate is too high, or the data or the machine of that rank is bad",
      worst - not_finite_.begin(), kNotFiniteInARow));
}

std::optional<std::string> RecordChecks::check_rates(std::span<const agree::Record> records) {
  const auto odd = std::ranges::find_if(
      records, [&](const agree::Record& record) { return record.rates != records.front().rates; });
  if (odd == records.end() || std::exchange(warned_of_rates_, true)) return std::nullopt;
  return fmt::format(
      "rank {} has other learning rates than rank 0: a scheduler or early stopping that looks at "
      "the loss must look at the same value on all ranks (all-reduce it first)",
      odd - records.begin());
}

}  // namespace pliant::engine
