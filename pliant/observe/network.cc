// SPDX-License-Identifier: MIT
#include "pliant/observe/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pliant/common/errors.h"

namespace pliant::observe {
namespace {

constexpr std::int64_t kNever = -1;

// The usual spread: followed over 50 timings, outliers clipped. Below 5 % the model's own error is
// larger; above 50 % alarms would sleep.
constexpr double kSpreadRate = 0.02;
constexpr double kLeastSpread = 0.05;
constexpr double kMostSpread = 0.5;
constexpr double kMeanToDeviation = 1.2533;  // sqrt(pi / 2): a normal deviation from its mean size

// A correction moves by half of what is left at first, by a twentieth later, and no farther than
// 3x: what is farther off is the network. It leaks back towards 1, a tenth as fast, so that the
// link explains what both could.
constexpr double kCorrectionRate = 0.05;
constexpr double kCorrectionLeak = 0.1;
constexpr double kMostCorrection = 1.0986;  // log 3
// After a change the link learns first.
constexpr std::int64_t kSettling = 6;

// When an exchange shows a change, control records are kept only if they still fit, within so many
// spreads. Dropping what fits costs some precision for a few exchanges; keeping what does not
// blames bandwidth for what latency did.
constexpr double kStillFits = 2;

// A rank's own link needs as many timings to be believed, and to be this many deviations away from
// the common one.
constexpr std::size_t kRankRows = 8;
constexpr double kRankDeviations = 3;

double predicted(const Sample& sample, const plan::Link& link) {
  return sample.messages * link.latency.value + sample.bytes * link.seconds_per_byte;
}

bool apart(double a, double b, double uncertainty) {
  return std::abs(a - b) > kRankDeviations * uncertainty;
}

}  // namespace

Network::Network(int size, const plan::Link& start) : size_(size), link_(start) {
  require(size >= 1, "a network of {} ranks", size);
  last_seen_.fill(kNever);
}

// In this order: refuse nonsense; compare with what was expected; if the network is another one,
// forget the old; then learn.
Network::Taken Network::take(const Batch& batch) {
  for (const Sample* sample :
       {&batch.exchange, batch.control ? &*batch.control : &batch.exchange}) {
    if (auto why = complaint(*sample)) return {.complaint = std::move(why)};
  }
  const Sample& exchange = batch.exchange;
  if (exchange.step <= last_step_) {
    return {.complaint = fmt::format(
                "step {}: a timing was ignored: step {} is already known, time does not go back",
                exchange.step, last_step_)};
  }
  require(exchange.correction < plan::kCorrections, "correction {} of {}", exchange.correction,
          plan::kCorrections);
  require(batch.of_ranks.empty() || batch.of_ranks.size() == static_cast<std::size_t>(size_),
          "timings of {} ranks among {}", batch.of_ranks.size(), size_);
  last_step_ = exchange.step;
  ++batches_;
  ++since_change_;

  const double correction = corrections_.factors.at(exchange.correction);
  const double log_ratio =
      std::log(exchange.duration.value / correction / predicted(exchange, link_));
  const bool first = exchanges_.rows().empty();
  exchanges_.add({exchange.messages, exchange.bytes, exchange.duration.value / correction});
  const int belong = first ? 0 : of_exchanges_.take(log_ratio, spread_);
  bool changed = belong > 0;
  if (changed) exchanges_.forget(static_cast<std::size_t>(belong));

  if (batch.control) {
    const double control_ratio =
        std::log(batch.control->duration.value / predicted(*batch.control, link_));
    controls_.add({batch.control->messages, batch.control->bytes, batch.control->duration.value});
    const int controls_belong =
        first ? 0 : of_controls_.take(control_ratio, spread_, Detector::Slow::kMustBeTwice);
    if (controls_belong > 0) {
      controls_.forget(static_cast<std::size_t>(controls_belong));
      exchanges_.forget(static_cast<std::size_t>(controls_belong));
    }
    if (changed && std::abs(control_ratio) > kStillFits * spread_) controls_.forget(1);
    changed = changed || controls_belong > 0;
  }
  if (changed) since_change_ = 0;

  link_ = fit(exchanges_, controls_, link_, spread_);
  const bool usual = !first && !changed && !of_exchanges_.suspicious();
  if (usual) {
    const double size = std::min(std::abs(log_ratio), 3 * spread_);
    spread_ = std::clamp(spread_ + kSpreadRate * (kMeanToDeviation * size - spread_), kLeastSpread,
                         kMostSpread);
  }
  if (usual && since_change_ >= kSettling) learn_correction(exchange.correction, log_ratio);
  last_seen_.at(exchange.correction) = exchange.step;
  if (!batch.of_ranks.empty()) take_ranks(batch.of_ranks);
  return {.changed = changed};
}

void Network::learn_correction(std::size_t index, double log_ratio) {
  if (std::abs(log_ratio) > kMostCorrection) return;  // an outlier, or the network
  const double rate =
      std::max(kCorrectionRate, 0.5 / static_cast<double>(1 + times_seen_.at(index)));
  ++times_seen_.at(index);
  const double now = std::log(corrections_.factors.at(index));
  const double clipped = std::clamp(log_ratio, -2 * spread_, 2 * spread_);
  corrections_.factors.at(index) = std::exp(std::clamp(
      now + rate * (clipped - kCorrectionLeak * now), -kMostCorrection, kMostCorrection));
}

void Network::take_ranks(const std::vector<Sample>& samples) {
  of_ranks_.resize(samples.size());
  for (std::size_t r = 0; r < samples.size(); ++r) {
    if (!complaint(samples[r]))
      of_ranks_[r].add({samples[r].messages, samples[r].bytes, samples[r].duration.value});
  }
}

plan::World Network::world() const {
  plan::World world = plan::uniform_world(size_, link_);
  for (std::size_t r = 0; r < of_ranks_.size(); ++r) {
    if (of_ranks_[r].rows().size() < kRankRows) continue;
    const plan::Link own = fit(of_ranks_[r], {}, link_, spread_);
    const bool other =
        apart(own.latency.value, link_.latency.value, own.latency_uncertainty.value) ||
        apart(own.seconds_per_byte, link_.seconds_per_byte, own.seconds_per_byte_uncertainty);
    if (other) world.links[r] = own;
  }
  return world;
}

std::optional<std::int64_t> Network::last_seen(std::size_t correction) const {
  const std::int64_t step = last_seen_.at(correction);
  return step == kNever ? std::nullopt : std::optional(step);
}

}  // namespace pliant::observe
