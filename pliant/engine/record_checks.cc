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
  still_for_ = 0;
}

bool RecordChecks::buffers_are_still() const { return still_for_ == kStillAfter; }

void RecordChecks::check_progress(std::span<const agree::Record> records) {
  not_finite_.resize(records.size());
  for (std::size_t r = 0; r < records.size(); ++r)
    not_finite_[r] = (records[r].flags & agree::kNotFinite) != 0 ? not_finite_[r] + 1 : 0;
  const auto worst = std::ranges::max_element(not_finite_);
  if (worst == not_finite_.end() || *worst < kNotFiniteInARow) return;
  const auto bad = std::ranges::count_if(not_finite_, [](int rounds) { return rounds > 0; });
  if (bad == std::ssize(not_finite_)) {
    throw Diverged(
        fmt::format("training diverged: the progress of every rank was infinite or not a number, "
                    "for {} exchanges. Start again from a checkpoint, with a lower learning rate "
                    "or with gradients clipped (clip_norm=)",
                    kNotFiniteInARow));
  }
  throw Disagreement(fmt::format(
      "the progress of rank {} was not finite in {} exchanges in a row, and that of {} of {} ranks "
      "was: look at the data and the machine of that rank",
      worst - not_finite_.begin(), kNotFiniteInARow, std::ssize(not_finite_) - bad,
      std::ssize(not_finite_)));
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
