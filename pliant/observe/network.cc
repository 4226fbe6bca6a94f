// SPDX-License-Identifier: MIT
#include "pliant/observe/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pliant/common/errors.h"

namespace pliant::observe {
namespace {

constexpr std::int64_t kNever = -1;

// The usual spread is averaged over about 50 timings, outliers clipped. Below 5 % the model's own
// error is larger. Busy hosts delay messages by a factor of 4 either way and more; above 7, nothing
// can be told from timings at all.
constexpr double kSpreadRate = 0.02;
constexpr double kLeastSpread = 0.05;
constexpr double kMostSpread = 2;
constexpr double kMeanToDeviation = 1.2533;  // sqrt(pi / 2): a normal deviation from its mean size
constexpr double kOfADifference = 0.7071;    // 1 / sqrt(2): the difference of two timings has both
// The first timings count more, until there are 50.
constexpr double kFirstSpreads = 4;
// A network changes once and stays, noise comes and goes: of changes that follow each other within
// so many exchanges all but the first are noise, and a fifth of the spread is learnt from each.
constexpr std::int64_t kRestless = 10;
constexpr double kRestlessRate = 0.2;

// A correction moves by half of the difference at first, by a twentieth later, and no farther than
// 3x: a larger difference is due to the network. It leaks back towards 1, a tenth as fast, so that
// the link explains what both could.
constexpr double kCorrectionRate = 0.05;
constexpr double kCorrectionLeak = 0.1;
constexpr double kMostCorrection = 1.0986;  // log 3
// Noise of more than 20 % makes a timing worth less, by the square.
constexpr double kUsualSpread = 0.2;
// After a change the link learns first.
constexpr std::int64_t kSettling = 6;

// When an exchange shows a change, control records are kept only if they still fit, within so many
// spreads. Dropping what fits costs some precision for a few exchanges; keeping what does not
// blames bandwidth for what latency did.
constexpr double kStillFits = 2;

double predicted(const Sample& sample, const plan::Link& link) {
  return sample.messages * link.latency.value + sample.bytes * link.seconds_per_byte;
}

}  // namespace

Network::Network(int size, const plan::Link& start) : size_(size), link_(start) {
  require(size >= 1, "a network of {} ranks", size);
  last_seen_.fill(kNever);
}

std::optional<std::string> Network::reason_to_ignore(const Batch& batch) const {
  if (auto why = observe::reason_to_ignore(batch.exchange)) return why;
  if (batch.control) {
    if (auto why = observe::reason_to_ignore(*batch.control)) return why;
  }
  if (batch.exchange.step > last_step_) return std::nullopt;
  return fmt::format("step {}: timing ignored: step {} was already recorded", batch.exchange.step,
                     last_step_);
}

// In this order: refuse bad timings, compare with the prediction, forget the old network if it
// changed, then learn.
Network::Taken Network::take(const Batch& batch) {
  if (auto why = reason_to_ignore(batch)) return {.ignored = std::move(why)};
  const Sample& exchange = batch.exchange;
  require(exchange.correction < plan::kCorrections, "correction {} of {}", exchange.correction,
          plan::kCorrections);
  last_step_ = exchange.step;
  ++batches_;
  ++since_change_;

  const double correction = corrections_.factors.at(exchange.correction);
  const double log_ratio =
      std::log(exchange.duration.value / correction / predicted(exchange, link_));
  const bool first = exchanges_.rows().empty();
  const double since_last = log_ratio - of_exchanges_.state().last;
  const bool restless = since_change_ <= kRestless && batches_ > since_change_;
  exchanges_.add({exchange.messages, exchange.bytes, exchange.duration.value / correction});
  const int of_new_network = first ? 0 : of_exchanges_.take(log_ratio, spread_);
  bool changed = of_new_network > 0;
  if (changed) exchanges_.forget(static_cast<std::size_t>(of_new_network));
  if (batch.control) changed = take_control(*batch.control, first, changed);
  if (changed) since_change_ = 0;

  link_ = fit(exchanges_, controls_, link_, spread_);
  const bool usual = !first && !changed && !of_exchanges_.suspicious();
  // While something may be changing, the difference of two timings still shows the noise.
  if (usual) {
    learn_spread(log_ratio, kSpreadRate);
  } else if (!first && (!changed || restless)) {
    learn_spread(kOfADifference * since_last, changed ? kRestlessRate : kSpreadRate);
  }
  if (usual && since_change_ >= kSettling) learn_correction(exchange.correction, log_ratio);
  last_seen_.at(exchange.correction) = exchange.step;
  return {.changed = changed};
}

// Whether the network changed: by these records, or by the exchange before them (`changed`).
bool Network::take_control(const Sample& control, bool first, bool changed) {
  const double log_ratio = std::log(control.duration.value / predicted(control, link_));
  controls_.add({control.messages, control.bytes, control.duration.value});
  const int of_new_network =
      first ? 0 : of_controls_.take(log_ratio, spread_, Detector::Slow::kMustBeTwice);
  if (of_new_network > 0) {
    controls_.forget(static_cast<std::size_t>(of_new_network));
    exchanges_.forget(static_cast<std::size_t>(of_new_network));
  }
  if (changed && std::abs(log_ratio) > kStillFits * spread_) controls_.forget(1);
  return changed || of_new_network > 0;
}

void Network::learn_spread(double log_ratio, double least_rate) {
  const double rate = std::max(least_rate, 1 / (kFirstSpreads + static_cast<double>(batches_)));
  const double size = std::min(std::abs(log_ratio), 3 * spread_);
  spread_ =
      std::clamp(spread_ + rate * (kMeanToDeviation * size - spread_), kLeastSpread, kMostSpread);
}

void Network::learn_correction(std::size_t index, double log_ratio) {
  if (std::abs(log_ratio) > kMostCorrection) return;  // an outlier, or the network
  const double worth = std::pow(std::min(1.0, kUsualSpread / spread_), 2);
  const double rate =
      worth * std::max(kCorrectionRate, 0.5 / static_cast<double>(1 + times_seen_.at(index)));
  ++times_seen_.at(index);
  const double now = std::log(corrections_.factors.at(index));
  const double clipped = std::clamp(log_ratio, -2 * spread_, 2 * spread_);
  corrections_.factors.at(index) = std::exp(std::clamp(
      now + rate * (clipped - kCorrectionLeak * now), -kMostCorrection, kMostCorrection));
}

std::optional<std::int64_t> Network::last_seen(std::size_t correction) const {
  const std::int64_t step = last_seen_.at(correction);
  return step == kNever ? std::nullopt : std::optional(step);
}

}  // namespace pliant::observe
