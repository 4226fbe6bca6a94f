// SPDX-License-Identifier: MIT
#include "pliant/control/change.h"

#include <fmt/format.h>

#include <cmath>

#include "pliant/plan/label.h"

namespace pliant::control {
namespace {

// Links that differ by less than a quarter are alike: estimates move as much by themselves.
const double kAlike = std::log(1.25);
// A value whose standard deviation is more than half of it is not worth printing.
constexpr double kTooUncertain = 0.5;

// " (40 Mbit/s)", or nothing if it is hardly known.
std::string rate_of(const plan::Link& link) {
  if (link.seconds_per_byte <= 0 ||
      link.seconds_per_byte_uncertainty > kTooUncertain * link.seconds_per_byte)
    return "";
  return fmt::format(" ({})", pliant::to_string(bandwidth(link)));
}

std::string latency_of(const plan::Link& link) {
  if (link.latency_uncertainty > kTooUncertain * link.latency) return "";
  return fmt::format(" ({})", pliant::to_string(link.latency));
}

// log(now / before); 0 if one of them is not positive.
double log_ratio(double before, double now) {
  return before > 0 && now > 0 ? std::log(now / before) : 0;
}

// What became of the network since the plan before was chosen; empty: nothing worth a word.
std::string network_words(const Change& change) {
  if (!change.origin.link) return "";
  const plan::Link& now = *change.origin.link;
  if (!change.link_before) return fmt::format("network measured{}", rate_of(now));
  const plan::Link& before = *change.link_before;
  const double bytes = log_ratio(before.seconds_per_byte, now.seconds_per_byte);
  const double latency = log_ratio(before.latency.value, now.latency.value);
  if (std::abs(bytes) > kAlike && std::abs(bytes) >= std::abs(latency))
    return fmt::format("network {}{}", bytes > 0 ? "slower" : "faster", rate_of(now));
  if (std::abs(latency) > kAlike)
    return fmt::format("network latency {}{}", latency > 0 ? "higher" : "lower", latency_of(now));
  return "";
}

std::string cause_words(const Change& change) {
  switch (change.origin.cause) {
    case Cause::kFirst:
      return "start";
    case Cause::kPinned:
      return "pinned";
    case Cause::kWarmUp:
      return "warm-up";
    case Cause::kWarmUpOver:
      return "warm-up over";
    case Cause::kTrial:
      return "trial of one exchange";
    case Cause::kTrialOver:
      return "trial over";
    case Cause::kCheck:
      return "timing plain DDP for some steps";
    case Cause::kCheckOver:
      return "seen to be faster than plain DDP";
    case Cause::kPlainFaster:
      return "plain DDP was faster";
    case Cause::kNewKind:
      return "full exchange done";
    case Cause::kNothing:
      return "new plan";
    case Cause::kNetwork:
    case Cause::kFaster:
      break;
  }
  if (std::string network = network_words(change); !network.empty()) return network;
  if (change.origin.cause == Cause::kNetwork) return "network changed";
  return fmt::format("predicted {:.3g}x faster", change.origin.speed_up);
}

}  // namespace

std::string sentence(const Change& change) {
  if (change.before == change.after) return fmt::format("{} stays", label(change.after));
  std::string text =
      fmt::format("{}: {}", cause_words(change),
                  change.before ? difference(*change.before, change.after) : label(change.after));
  if (change.origin.goal && amount(*change.origin.goal) != amount(change.after))
    text += fmt::format(", on the way to {}", amount(*change.origin.goal));
  if (change.after_full_exchange) text += ", after one full exchange";
  return text;
}

}  // namespace pliant::control
