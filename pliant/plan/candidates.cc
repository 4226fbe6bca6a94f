// SPDX-License-Identifier: MIT
#include "pliant/plan/candidates.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <span>

#include "pliant/common/errors.h"
#include "pliant/plan/density.h"

namespace pliant::plan {
namespace {

// What is tried for each part, given the parts before it: one function per part, each with its
// rules of docs/plans.md. A part that the plan does not have keeps its one value of Plan{}.
class Choices {
 public:
  Choices(int size, const CandidateOptions& options)
      : size_(size), options_(options), pins_(options.pins) {}

  [[nodiscard]] std::vector<Kind> kind(const Plan&) const {
    std::vector<Kind> kinds = pinned_or(pins_.kind, kKinds);
    std::erase_if(kinds, [&](Kind kind) {
      return contradicts(&Pins::kind, kind) || (kind == Kind::kUpdates && !options_.updates);
    });
    return kinds;
  }

  // With one rank nothing travels: the plainest scheme that the pins allow.
  [[nodiscard]] std::vector<Scheme> scheme(const Plan&) const {
    std::vector<Scheme> schemes = pinned_or(pins_.scheme, kSchemes);
    std::erase_if(schemes, [&](Scheme scheme) {
      return contradicts(&Pins::scheme, scheme) || (scheme == Scheme::kShared && !options_.shared);
    });
    return alone() && !schemes.empty() ? std::vector{schemes.front()} : schemes;
  }

  [[nodiscard]] std::vector<Fusion> fuse(const Plan& plan) const {
    if (plan.kind != Kind::kGradients) return {plan.fuse};
    return alone() ? pinned_or(pins_.fuse, {plan.fuse}) : pinned_or(pins_.fuse, kFusions);
  }
  [[nodiscard]] std::vector<int> every(const Plan& plan) const {
    if (plan.kind != Kind::kUpdates) return {plan.every};
    if (!pins_.every && pins_.late > kMaxLateOfAny) return {*pins_.late};
    return alone() ? pinned_or(pins_.every, {plan.every}) : pinned_or(pins_.every, kEverys);
  }
  // Shared lands at once: a follower learns its indices one broadcast later.
  [[nodiscard]] std::vector<int> late(const Plan& plan) const {
    if (plan.kind != Kind::kUpdates || plan.scheme == Scheme::kShared) return {plan.late};
    return alone() ? pinned_or(pins_.late, {plan.late}) : pinned_or(pins_.late, kLates);
  }

  [[nodiscard]] std::vector<Leader> leader(const Plan& plan) const {
    if (plan.scheme != Scheme::kShared) return {plan.leader};
    return pinned_or(pins_.leader, kLeaders);
  }

  // Halving and circulant have the same rounds and bytes: halving where it can be, circulant
  // elsewhere. With two ranks all three are one exchange.
  [[nodiscard]] std::vector<ReduceScatter> scatter(const Plan& plan) const {
    if (!has_scatter(plan.scheme)) return {plan.scatter};
    if (at_most_a_pair()) return pinned_or(pins_.scatter, {ReduceScatter::kDirect});
    const bool power_of_two = std::has_single_bit(static_cast<unsigned>(size_));
    return pinned_or(pins_.scatter,
                     {power_of_two ? ReduceScatter::kHalving : ReduceScatter::kCirculant,
                      ReduceScatter::kDirect});
  }

  // Recursive doubling has the rounds and bytes of Bruck, which runs at any size. With two ranks
  // all three are one exchange.
  [[nodiscard]] std::vector<AllGather> gather(const Plan& plan) const {
    if (!has_gather(plan.scheme)) return {plan.gather};
    if (at_most_a_pair()) return pinned_or(pins_.gather, {AllGather::kBruck});
    return pinned_or(pins_.gather, {AllGather::kRing, AllGather::kBruck});
  }

  // With two ranks a broadcast is one message.
  [[nodiscard]] std::vector<Broadcast> bcast(const Plan& plan) const {
    if (!has_bcast(plan.scheme)) return {plan.bcast};
    if (pins_.segments) return pinned_or(pins_.bcast, {Broadcast::kChain, Broadcast::kDoubleTree});
    if (at_most_a_pair()) return pinned_or(pins_.bcast, {Broadcast::kBinomial});
    return pinned_or(pins_.bcast, kBroadcasts);
  }
  [[nodiscard]] std::vector<int> segments(const Plan& plan) const {
    return {has_bcast(plan.scheme) ? pins_.segments.value_or(plan.segments) : plan.segments};
  }

  // The backend's own is for dense, and first: it is plain DDP. With two ranks ring is
  // halving-doubling, and tree sends twice what that does in as many rounds.
  [[nodiscard]] std::vector<AllReduce> reduce(const Plan& plan) const {
    using enum AllReduce;
    if (!has_reduce(plan.scheme)) return {plan.reduce};
    std::vector<AllReduce> schedules = pinned_or(pins_.reduce, kAllReduces);
    std::erase_if(schedules, [&](AllReduce schedule) {
      const bool twin =
          at_most_a_pair() && !pins_.reduce && (schedule == kRing || schedule == kTree);
      const bool impossible =
          schedule == kBackend && (plan.scheme != Scheme::kDense || !options_.backend_all_reduce);
      return twin || impossible || contradicts(&Pins::reduce, schedule);
    });
    return alone() && !schedules.empty() ? std::vector{schedules.front()} : schedules;
  }

  // All entries by shared or srs: dense in the same code sends no indices. By union: every value is
  // rounded once, in half the messages.
  [[nodiscard]] std::vector<double> density(const Plan& plan) const {
    if (plan.scheme == Scheme::kDense) return {plan.density};
    std::vector<double> densities = pinned_or(pins_.density, kDensities);
    if (plan.scheme != Scheme::kUnion && !pins_.scheme && !pins_.density)
      std::erase(densities, 1.0);
    return densities;
  }

  // No lossy code with recursive doubling or the backend's own. Sparse: lossy codes only, where
  // they are allowed: what they round stays in the residual, and they are at most half the bytes.
  [[nodiscard]] std::vector<ValueCode> values(const Plan& plan) const {
    using enum ValueCode;
    if (pins_.values) return {*pins_.values};  // reduce() left no schedule that it contradicts
    if (has_reduce(plan.scheme) && needs_f32(plan.reduce)) return {kF32};
    if (plan.scheme == Scheme::kDense)
      return alone() ? std::vector{kF32} : std::vector{kF32, kF16, kInt8, kInt4};
    return {kF16, kInt8, kInt4};
  }

  // Rice is the shortest at every density.
  [[nodiscard]] std::vector<IndexCode> indices(const Plan& plan) const {
    if (plan.scheme == Scheme::kDense) return {plan.indices};
    return pinned_or(pins_.indices, {IndexCode::kRice});
  }

 private:
  [[nodiscard]] bool alone() const { return size_ == 1; }
  [[nodiscard]] bool at_most_a_pair() const { return size_ <= 2; }

  template <typename T, typename List = std::initializer_list<T>>
  static std::vector<T> pinned_or(const std::optional<T>& pin, const List& list) {
    if (pin) return {*pin};
    return {list.begin(), list.end()};
  }

  template <typename T>
  [[nodiscard]] bool contradicts(std::optional<T> Pins::*part, T value) const {
    Pins pins = pins_;
    pins.*part = value;
    return contradiction(pins).has_value();
  }

  int size_;
  const CandidateOptions& options_;
  const Pins& pins_;
};

// Every plan of the list, once with each value that is tried for one more part.
template <typename T>
std::vector<Plan> spread(const std::vector<Plan>& plans, T Plan::*part, const Choices& choices,
                         std::vector<T> (Choices::*values)(const Plan&) const) {
  std::vector<Plan> out;
  for (const Plan& plan : plans) {
    for (const T value : (choices.*values)(plan)) {
      out.push_back(plan);
      out.back().*part = value;
    }
  }
  return out;
}

}  // namespace

std::vector<Plan> candidates(int size, const CandidateOptions& options) {
  require(size >= 1, "candidates for {} ranks", size);
  const auto why = contradiction(options.pins);
  require(!why, "candidates for '{}': {}", to_string(options.pins), why.value_or(""));
  const Choices choices(size, options);
  std::vector<Plan> plans = {Plan{}};
  plans = spread(plans, &Plan::kind, choices, &Choices::kind);
  plans = spread(plans, &Plan::scheme, choices, &Choices::scheme);
  plans = spread(plans, &Plan::fuse, choices, &Choices::fuse);
  plans = spread(plans, &Plan::every, choices, &Choices::every);
  plans = spread(plans, &Plan::late, choices, &Choices::late);
  plans = spread(plans, &Plan::leader, choices, &Choices::leader);
  plans = spread(plans, &Plan::scatter, choices, &Choices::scatter);
  plans = spread(plans, &Plan::gather, choices, &Choices::gather);
  plans = spread(plans, &Plan::bcast, choices, &Choices::bcast);
  plans = spread(plans, &Plan::segments, choices, &Choices::segments);
  plans = spread(plans, &Plan::reduce, choices, &Choices::reduce);
  plans = spread(plans, &Plan::density, choices, &Choices::density);
  plans = spread(plans, &Plan::values, choices, &Choices::values);
  plans = spread(plans, &Plan::indices, choices, &Choices::indices);
  if (plans.empty()) {
    throw InputError(fmt::format("plan: '{}' cannot be run here: {}", to_string(options.pins),
                                 options.pins.reduce == AllReduce::kBackend
                                     ? "the communicator has no all-reduce of its own"
                                     : "updates need the optimizer"));
  }
  return plans;
}

}  // namespace pliant::plan
